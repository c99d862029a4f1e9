import { type Clock, systemClock } from './clock.ts'

/** A time limit that stands still while somebody else's time passes. */
export interface Countdown {
  /** Stops the clock until the returned function is called as often as this was. */
  pause(): () => void
  /** Ends it without firing. */
  stop(): void
}

/** Calls `fire` once, after `ms` milliseconds that were not paused. */
export function createCountdown(ms: number, fire: () => void, clock: Clock = systemClock): Countdown {
  let left = ms
  let since = clock.now()
  let paused = 0
  let over = false
  const end = (): void => {
    over = true
    fire()
  }
  let cancel = clock.after(left, end)
  return {
    pause() {
      if (paused++ === 0) {
        cancel()
        left -= clock.now() - since
      }
      let resumed = false
      return () => {
        if (resumed) return
        resumed = true
        if (--paused > 0 || over) return
        since = clock.now()
        cancel = clock.after(Math.max(0, left), end)
      }
    },
    stop() {
      over = true
      cancel()
    },
  }
}
