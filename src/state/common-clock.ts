import { type Clock, ticksOf } from '../core/clock.ts'

/** The time of somebody whom several machines ask, so that all mean the same moment by it whatever their own clocks say. */
export interface CommonClock extends Clock {
  /** What time it was there, at this moment of `ticks`. */
  set(time: number, ticks: number): void
  /** By how much this machine's own clock is ahead of it. */
  readonly aheadMs: number
}

/** This machine's own time until it is set. */
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
