/** Time as the rest of the code sees it. Tests pass their own, so nothing sleeps. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `fn` once after `ms`; the returned function cancels. Does not keep the process alive. */
  after(ms: number, fn: () => void): () => void
  /** Milliseconds since some moment, whatever people and time servers do to the clock meanwhile; default as `now`. */
  ticks?(): number
}

/** To measure how long something takes: a clock that people set is no measure of that. */
export const ticksOf = (clock: Clock): number => clock.ticks?.() ?? clock.now()

export const systemClock: Clock = {
  now: () => Date.now(),
  ticks: () => performance.now(),
  after: (ms, fn) => {
    const timer = setTimeout(fn, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
}
