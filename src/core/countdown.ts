import { type Clock, ticksOf } from './clock.ts'

/** A time limit that can be paused, for example while a person answers. */
export interface Countdown {
  /** Pauses until the returned function is called; pauses can overlap. */
  pause(): () => void
  stop(): void
}

/** Calls `fire` once, after `ms` milliseconds without pauses. */
export function createCountdown(ms: number, fire: () => void, clock: Clock): Countdown {
  let since = ticksOf(clock)
  let left = ms
  let paused = 0
  let over = false
  const end = (): void => {
    over = true
    fire()
  }
  let cancel = clock.after(ms, end)
  return {
    pause() {
      if (paused++ === 0) {
        cancel()
        left -= ticksOf(clock) - since
      }
      let resumed = false
      return () => {
        if (resumed) return
        resumed = true
        if (--paused > 0 || over) return
        since = ticksOf(clock)
        cancel = clock.after(Math.max(0, left), end)
      }
    },
    stop() {
      over = true
      cancel()
    },
  }
}
