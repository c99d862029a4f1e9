import type { Clock } from '../src/core/clock.ts'

/** A clock that only moves when a test says so. */
export interface ManualClock extends Clock {
  /** Lets so many milliseconds pass and runs what falls due, in order. */
  pass(ms: number): void
  /** Sets the time of day, as an operator or a time server does: no timer moves by that. */
  jump(ms: number): void
  ticks(): number
  /** Timers not yet due. */
  readonly waiting: number
}

interface Due {
  readonly at: number
  readonly fn: () => void
}

export function createManualClock(start = 0): ManualClock {
  let now = start
  let ahead = 0
  const due = new Set<Due>()
  return {
    now: () => now + ahead,
    ticks: () => now,
    jump(ms) {
      ahead += ms
    },
    after(ms, fn) {
      const timer = { at: now + ms, fn }
      due.add(timer)
      return () => due.delete(timer)
    },
    pass(ms) {
      const end = now + ms
      for (;;) {
        let next: Due | undefined
        for (const one of due) if (one.at <= end && (!next || one.at < next.at)) next = one
        if (!next) break
        due.delete(next)
        now = next.at
        next.fn()
      }
      now = end
    },
    get waiting() {
      return due.size
    },
  }
}
