import { type Clock, ticksOf } from '../core/clock.ts'
import type { Log } from '../core/log.ts'

/** Detects when the event loop is blocked, during which no request is answered. */
export interface LoopWatch {
  /** The longest block within the last minute, in milliseconds. */
  readonly lagMs: number
  start(): void
  stop(): void
}

const EVERY_MS = 1_000
/** Blocks longer than this are logged. */
const WARN_MS = 2_000
const REMEMBERED_MS = 60_000

/** @param running number of calls in progress */
export function createLoopWatch(clock: Clock, log: Pick<Log, 'warn'>, running: () => number): LoopWatch {
  let cancel: (() => void) | undefined
  let lags: { readonly at: number; readonly ms: number }[] = []

  function look(dueAt: number): void {
    const now = ticksOf(clock)
    const ms = Math.max(0, Math.round(now - dueAt))
    lags = [...lags.filter(({ at }) => now - at < REMEMBERED_MS), { at: now, ms }]
    if (ms >= WARN_MS)
      log.warn('the event loop was blocked, and Pegboard answered no requests meanwhile', {
        ms,
        running: running(),
        next: 'Look for a module that computes without a pause, or for a machine that slept or is overloaded.',
      })
    plan()
  }
  function plan(): void {
    const dueAt = ticksOf(clock) + EVERY_MS
    cancel = clock.after(EVERY_MS, () => look(dueAt))
  }
  return {
    get lagMs() {
      const now = ticksOf(clock)
      return Math.max(0, ...lags.filter(({ at }) => now - at < REMEMBERED_MS).map(({ ms }) => ms))
    },
    start() {
      if (!cancel) plan()
    },
    stop() {
      cancel?.()
      cancel = undefined
    },
  }
}
