import { type Clock, ticksOf } from '../core/clock.ts'
import type { Log } from '../core/log.ts'

const EVERY_MS = 1_000
/** Blocks longer than this are logged. */
const WARN_MS = 2_000
const REMEMBERED_MS = 60_000

/**
 * Detects when the event loop is blocked, during which no request is answered.
 * @param running number of calls in progress
 */
export function createLoopWatch(clock: Clock, log: Pick<Log, 'warn'>, running: () => number) {
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
    /** The longest block within the last minute, in milliseconds. */
    get lagMs(): number {
      const now = ticksOf(clock)
      return Math.max(0, ...lags.filter(({ at }) => now - at < REMEMBERED_MS).map(({ ms }) => ms))
    },
    start(): void {
      if (!cancel) plan()
    },
    stop(): void {
      cancel?.()
      cancel = undefined
    },
  }
}
