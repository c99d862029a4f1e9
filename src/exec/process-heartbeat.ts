import { randomBytes } from 'node:crypto'
import { type Clock, createJumpDetector, ticksOf } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { hasEnded, markOfThisProcess } from '../state/process-mark.ts'
import type { Shared } from '../state/shared-state.ts'

/** Tells the processes that share a store that this one is alive while it has work. */
export interface ProcessHeartbeat {
  readonly id: string
  /** Call before work is stored. Resolves when the store has this process. */
  begin(): Promise<void>
  end(): void
  isAlive(id: string): Promise<boolean>
  /** Registers this process as one that runs due work. */
  join(): Promise<void>
  /** True if no other process is registered. */
  alone(): Promise<boolean>
  onBeat(listener: () => void): void
  /** Sends no more heartbeats, and does not sign off. */
  stop(): void
  leave(): Promise<void>
}

/** A heartbeat: its time, and the process on this machine. */
interface Word {
  readonly at: number
  readonly mark?: string
}

const BEAT_MS = 5_000
const CHECK_MS = 5_000

/** When to check again whether another process still runs its work. Rounded up, so that all processes use one alarm. */
export const nextCheckAt = (now: number): number => Math.ceil((now + CHECK_MS) / CHECK_MS) * CHECK_MS

/** Lifetime of a heartbeat: a slow process is not dead. */
const GOOD_MS = 15_000
/** Processes that only wait for due work send heartbeats less often. */
const STAY_MS = 60_000
const STAYS_MS = 150_000
/** A heartbeat from further in the future was sent while the clock was wrong. */
const AHEAD_MS = 1_000

export function createProcessHeartbeat(
  shared: Pick<Shared, 'store' | 'onBack'>,
  clock: Clock,
  log: Log,
): ProcessHeartbeat {
  const id = randomBytes(8).toString('hex')
  const mark = markOfThisProcess()
  const listeners: Array<() => void> = []
  let work = 0
  let saidAt = Number.NEGATIVE_INFINITY
  let cancel: (() => void) | undefined
  const table = () => shared.store().table<Word | number>('instance')
  const members = () => shared.store().table<number>('member')
  let cancelStay: (() => void) | undefined
  let joined = false
  async function stay(): Promise<void> {
    cancelStay?.()
    if (!joined) return
    cancelStay = clock.after(STAY_MS, () => void stay().catch(unheard))
    await members().put({ id, owner: '', value: process.pid, expiresAt: clock.now() + STAYS_MS })
  }

  let saying = Promise.resolve()
  function say(): Promise<void> {
    const now = ticksOf(clock)
    if (now - saidAt < BEAT_MS) return saying
    saidAt = now
    saying = table()
      .put({
        id,
        owner: '',
        value: { at: clock.now(), ...(mark === undefined ? {} : { mark }) },
        expiresAt: clock.now() + GOOD_MS,
      })
      .then(
        () => undefined,
        (error: unknown) => {
          saidAt = Number.NEGATIVE_INFINITY
          throw error
        },
      )
    return saying
  }
  const unheard = (error: unknown): void =>
    log.warn('cannot record in the store that this process is running', { error: messageOf(error) })
  // No process could send heartbeats while the store was away, so all processes get time to.
  let backAt = Number.NEGATIVE_INFINITY
  function all(): void {
    backAt = ticksOf(clock)
    saidAt = Number.NEGATIVE_INFINITY
    if (work > 0) say().catch(unheard)
  }
  shared.onBack(all)
  // The same if the clock was set or the machine slept: the lifetimes are wrong.
  const jumped = createJumpDetector(clock)
  function watchClock(): void {
    if (jumped() !== 0) all()
  }
  function beat(): void {
    cancel ??= clock.after(BEAT_MS, () => {
      cancel = undefined
      if (work === 0) return
      watchClock()
      say().catch(unheard)
      for (const listener of listeners) listener()
      beat()
    })
  }
  return {
    id,
    async begin() {
      work++
      beat()
      await say()
    },
    end: () => void work--,
    async isAlive(other) {
      if (other === id) return true
      watchClock()
      const value = (await table().get(other))?.value
      // Earlier versions stored a number.
      const word = typeof value === 'object' ? value : undefined
      if (word?.mark !== undefined && hasEnded(word.mark)) return false
      if (ticksOf(clock) - backAt < GOOD_MS) return true
      return value !== undefined && (word === undefined || word.at <= clock.now() + AHEAD_MS)
    },
    async join() {
      joined = true
      await stay()
    },
    async alone() {
      return (await members().list()).every((member) => member.id === id)
    },
    onBeat: (listener) => void listeners.push(listener),
    stop() {
      cancel?.()
      cancelStay?.()
      joined = false
    },
    async leave() {
      if (!joined) return
      joined = false
      cancelStay?.()
      await members().delete(id)
    },
  }
}
