import type { Clock } from '../core/clock.ts'

/** Lets work begin a few at a time. */
export interface Turns {
  /** Runs `work` when it is its turn; `skip` is asked then whether it is still wanted. */
  take(work: () => Promise<void>, skip: () => boolean): void
}

/**
 * @param places how many may be at it at once
 * @param longestMs after so long the next may begin although one is not done: one that hangs holds nobody up
 */
export function createTurns(clock: Clock, places: number, longestMs: number): Turns {
  const waiting: Array<{ readonly work: () => Promise<void>; readonly skip: () => boolean }> = []
  let taken = 0

  function next(): void {
    while (taken < places) {
      const one = waiting.shift()
      if (!one) return
      if (one.skip()) continue
      taken++
      let over = false
      const done = (): void => {
        if (over) return
        over = true
        stop()
        taken--
        next()
      }
      const stop = clock.after(longestMs, done)
      one.work().then(done, done)
    }
  }

  return {
    take(work, skip) {
      waiting.push({ work, skip })
      next()
    },
  }
}
