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

/** The time of the first look, and from then on what has passed since: a clock that is set later does not move it. */
export function createSteadyClock(clock: Clock): Clock {
  const origin = clock.now() - ticksOf(clock)
  const now = (): number => Math.round(origin + ticksOf(clock))
  return { now, ticks: () => ticksOf(clock), after: clock.after }
}

/** Time servers correct a clock in smaller steps. */
const JUMP_MS = 1_000

/** How far a clock was set since the last time this was asked, in milliseconds; 0 where it only went on. */
export function createJumpDetector(clock: Clock): () => number {
  let drift = clock.now() - ticksOf(clock)
  return () => {
    const now = clock.now() - ticksOf(clock)
    const jump = now - drift
    if (Math.abs(jump) < JUMP_MS) return 0
    drift = now
    return jump
  }
}

/**
 * Milliseconds since some moment, for how long something took: nobody sets it. `performance.now()` is the same, but the
 * first look at it reads a part of Node that takes as long as a hundred calls.
 */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1_000 + nanoseconds / 1_000_000
}

let origin: number | undefined

/** When a moment of `monotonicMs` was, in milliseconds since the epoch: later moments are never earlier. */
export function epochMs(at: number): number {
  origin ??= Date.now() - monotonicMs()
  return origin + at
}

/** A timer of Node that is to wait longer fires at once, with a warning. */
const MOST_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  ticks: monotonicMs,
  after(ms, fn) {
    let timer: NodeJS.Timeout
    const wait = (leftMs: number): void => {
      const nextMs = Math.min(leftMs, MOST_MS)
      timer = setTimeout(() => (leftMs > nextMs ? wait(leftMs - nextMs) : fn()), nextMs)
      timer.unref()
    }
    wait(Math.max(0, ms))
    return () => clearTimeout(timer)
  },
}
