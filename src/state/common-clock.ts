import { type Clock, ticksOf } from '../core/clock.ts'

/** A clock that several machines share (the time of Redis), so that they agree whatever their own clocks say. */
export interface CommonClock extends Clock {
  /** Sets the shared time as it was at `ticks`. */
  set(time: number, ticks: number): void
  /** How far this machine's own clock is ahead of the shared one. */
  readonly aheadMs: number
}

/** Follows this machine's clock until `set` is called. */
export function createCommonClock(own: Clock): CommonClock {
  let offset: number | undefined
  const ticks = (): number => ticksOf(own)
  const now = (): number => (offset === undefined ? own.now() : Math.round(ticks() + offset))
  return {
    now,
    ticks,
    after: own.after,
    set(time, at) {
      offset = time - at
    },
    get aheadMs() {
      return own.now() - now()
    },
  }
}
