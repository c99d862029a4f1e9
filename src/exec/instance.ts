import { randomBytes } from 'node:crypto'
import { type Clock, createJumpDetector, ticksOf } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { hasEnded, markOfThisProcess } from '../state/process-mark.ts'
import type { Shared } from '../state/shared.ts'

/** This process among those that share a store: while it has work under way, it says now and then that it lives. */
export interface Instance {
  readonly id: string
  /** Something is under way; to be called before that is written down. Resolves when the store knows us. */
  begin(): Promise<void>
  end(): void
  /** Whether a process still does what it said it does. */
  isAlive(id: string): Promise<boolean>
  /** From now on it is one of those that do what falls due. */
  join(): Promise<void>
  /** Whether none of those is another. */
  alone(): Promise<boolean>
  /** Called at each beat. */
  onBeat(listener: () => void): void
  /** Nothing is said any more, not even that it goes. */
  stop(): void
  leave(): Promise<void>
}

/** What a process says while it has work: when it said so, and which one of this machine it is. */
interface Word {
  readonly at: number
  readonly mark?: string
}

const BEAT_MS = 5_000
/** A word is good for this long: a process that is only slow is not dead. */
const GOOD_MS = 15_000
/** Those who only wait for what falls due say so more seldom. */
const STAY_MS = 60_000
const STAYS_MS = 150_000
/** A word from a later time than this was given while the clock was wrong, and would be good for too long. */
const AHEAD_MS = 1_000

export function createInstance(shared: Pick<Shared, 'store' | 'onBack'>, clock: Clock, log: Log): Instance {
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
    log.warn('the store does not know that this process lives', { error: messageOf(error) })
  // While the store was away nobody could say that he lives: all get the time to.
  let backAt = Number.NEGATIVE_INFINITY
  function all(): void {
    backAt = ticksOf(clock)
    saidAt = Number.NEGATIVE_INFINITY
    if (work > 0) say().catch(unheard)
  }
  shared.onBack(all)
  // The same where the clock was set, or the machine slept: what was said then is good until another time than was meant.
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
      // Earlier versions said a number that means nothing here.
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
