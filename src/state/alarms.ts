import { type Clock, createJumpDetector, ticksOf } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

export interface Planned {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

/**
 * Says when something is to be looked at. An alarm may ring late, twice, or for what was taken back meanwhile: whoever hears it
 * looks at what is kept, which alone decides.
 */
export interface Alarms {
  set(id: string, at: number): Promise<void>
  clear(id: string): void
  /**
   * @param ring does what is due; its promise lasts as long as that
   * @param planned everything that is kept with a time
   */
  start(ring: (id: string) => Promise<void>, planned: () => Promise<readonly Planned[]>): Promise<void>
  stop(): Promise<void>
}

/** Other processes may have planned something and died, and clocks may be set: it is read anew this often. */
const LOOK_MS = 10_000
/** Of what is due in the same moment; then everything else has its turn. */
const RUNG_AT_ONCE = 250

/** Alarms of this process, with one timer for all. What is kept is read at the start, and now and then. */
export function createLocalAlarms(clock: Clock, log: Log): Alarms {
  const times = new Map<string, number>()
  const ringing = new Set<Promise<void>>()
  let cancel: (() => void) | undefined
  let hears: { ring(id: string): Promise<void>; planned(): Promise<readonly Planned[]> } | undefined
  let looked = Number.NEGATIVE_INFINITY
  /** When it is looked next. */
  let next = Number.POSITIVE_INFINITY
  const jumped = createJumpDetector(clock)

  async function look(): Promise<void> {
    looked = ticksOf(clock)
    const all = (await hears?.planned()) ?? []
    times.clear()
    for (const { id, at } of all) times.set(id, at)
  }

  function plan(): void {
    cancel?.()
    cancel = undefined
    if (!hears) return
    next = clock.now() + LOOK_MS
    for (const at of times.values()) if (at < next) next = at
    cancel = clock.after(Math.max(0, next - clock.now()), () => {
      go().catch((error: unknown) => log.error('what is due could not be looked at', { error: messageOf(error) }))
    })
  }

  async function go(): Promise<void> {
    try {
      // What was planned by a clock that is set since may have another time now.
      if (jumped() !== 0 || ticksOf(clock) - looked >= LOOK_MS) await look()
      const now = clock.now()
      let rung = 0
      for (const id of [...times.keys()]) {
        // It may have been rung, or set to another time, in a turn of others.
        const at = times.get(id)
        if (at === undefined || at > now || !hears) continue
        times.delete(id)
        const work = hears
          .ring(id)
          .catch((error: unknown) => log.error('what was due could not be done', { id, error: messageOf(error) }))
        ringing.add(work)
        work.finally(() => ringing.delete(work))
        if (++rung % RUNG_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve))
      }
    } finally {
      // One look that failed must not be the last.
      plan()
    }
  }

  return {
    async set(id, at) {
      times.set(id, at)
      if (at < next) plan()
    },
    clear(id) {
      times.delete(id)
    },
    async start(ring, planned) {
      hears = { ring, planned }
      await look()
      plan()
    },
    async stop() {
      hears = undefined
      cancel?.()
      await Promise.all(ringing)
    },
  }
}
