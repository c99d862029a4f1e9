import type { Clock } from '../src/core/clock.ts'

/** A clock that only the test moves. */
export interface ManualClock extends Clock {
  /** Advances the time by these milliseconds and runs due timers in order. */
  pass(ms: number): void
  /** Sets the time of day without moving timers, like an operator or a time server. */
  jump(ms: number): void
  ticks(): number
  /** Pending timers. */
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
