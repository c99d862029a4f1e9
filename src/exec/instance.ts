import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Shared } from '../state/shared.ts'

/** This process among those that share a store: while it has work under way, it says now and then that it lives. */
export interface Instance {
  readonly id: string
  /** Something is under way; to be called before that is written down. Resolves when the store knows us. */
  begin(): Promise<void>
  end(): void
  /** Whether a process still does what it said it does. */
  isAlive(id: string): Promise<boolean>
  /** Called at each beat. */
  onBeat(listener: () => void): void
  stop(): void
}

const BEAT_MS = 5_000
/** A word is good for this long: a process that is only slow is not dead. */
const GOOD_MS = 15_000

export function createInstance(shared: Pick<Shared, 'store' | 'onBack'>, clock: Clock, log: Log): Instance {
  const id = randomBytes(8).toString('hex')
  const listeners: Array<() => void> = []
  let work = 0
  let saidAt = Number.NEGATIVE_INFINITY
  let cancel: (() => void) | undefined
  const table = () => shared.store().table<number>('instance')

  let saying = Promise.resolve()
  function say(): Promise<void> {
    if (clock.now() - saidAt < BEAT_MS) return saying
    saidAt = clock.now()
    saying = table()
      .put({ id, owner: '', value: process.pid, expiresAt: saidAt + GOOD_MS })
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
  shared.onBack(() => {
    backAt = clock.now()
    saidAt = Number.NEGATIVE_INFINITY
    if (work > 0) say().catch(unheard)
  })
  function beat(): void {
    cancel ??= clock.after(BEAT_MS, () => {
      cancel = undefined
      if (work === 0) return
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
    isAlive: async (other) =>
      other === id || (await table().get(other)) !== undefined || clock.now() - backAt < GOOD_MS,
    onBeat: (listener) => void listeners.push(listener),
    stop: () => cancel?.(),
  }
}
