import { type Clock, createJumpDetector, ticksOf } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

export interface PlannedAlarm {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

/**
 * Rings when stored work is due. An alarm can ring late, twice, or for work that was cancelled meanwhile, so the
 * listener always reads the store and decides from that.
 */
export interface Alarms {
  set(id: string, at: number): Promise<void>
  clear(id: string): void
  /**
   * @param ring handles one due item; its promise lasts until the work is done
   * @param planned returns every stored item that has a time
   */
  start(ring: (id: string) => Promise<void>, planned: () => Promise<readonly PlannedAlarm[]>): Promise<void>
  stop(): Promise<void>
}

/** How often the store is read again: another process may have added items and died, and clocks can change. */
const RELOAD_MS = 10_000
/** Items rung in one turn of the event loop. After that, other work gets a turn. */
const RUNG_AT_ONCE = 250

/** Alarms of this process, on one timer. Reads the store at the start and every ten seconds. */
export function createLocalAlarms(clock: Clock, log: Log): Alarms {
  const times = new Map<string, number>()
  const ringing = new Set<Promise<void>>()
  let cancel: (() => void) | undefined
  let hears: { ring(id: string): Promise<void>; planned(): Promise<readonly PlannedAlarm[]> } | undefined
  let looked = Number.NEGATIVE_INFINITY
  /** When the store is read next. */
  let next = Number.POSITIVE_INFINITY
  const jumped = createJumpDetector(clock)

  async function loadTimes(): Promise<void> {
    looked = ticksOf(clock)
    const all = (await hears?.planned()) ?? []
    times.clear()
    for (const { id, at } of all) times.set(id, at)
  }

  function setTimer(): void {
    cancel?.()
    cancel = undefined
    if (!hears) return
    next = clock.now() + RELOAD_MS
    for (const at of times.values()) if (at < next) next = at
    cancel = clock.after(Math.max(0, next - clock.now()), () => {
      ringDue().catch((error: unknown) => log.error('cannot read the due jobs', { error: messageOf(error) }))
    })
  }

  async function ringDue(): Promise<void> {
    try {
      // After a clock change, planned items may be due at another time.
      if (jumped() !== 0 || ticksOf(clock) - looked >= RELOAD_MS) await loadTimes()
      const now = clock.now()
      let rung = 0
      for (const id of [...times.keys()]) {
        // Another turn may have rung or moved this item.
        const at = times.get(id)
        if (at === undefined || at > now || !hears) continue
        times.delete(id)
        const work = hears
          .ring(id)
          .catch((error: unknown) => log.error('cannot run a due job', { id, error: messageOf(error) }))
        ringing.add(work)
        work.finally(() => ringing.delete(work))
        if (++rung % RUNG_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve))
      }
    } finally {
      // A failed read must not stop later reads.
      setTimer()
    }
  }

  return {
    async set(id, at) {
      times.set(id, at)
      if (at < next) setTimer()
    },
    clear(id) {
      times.delete(id)
    },
    async start(ring, planned) {
      hears = { ring, planned }
      await loadTimes()
      setTimer()
    },
    async stop() {
      hears = undefined
      cancel?.()
      await Promise.all(ringing)
    },
  }
}
