/** The time source of all code. Tests pass their own, so that no test sleeps. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `fn` once after `ms`; the returned function cancels. Does not keep the process alive. */
  after(ms: number, fn: () => void): () => void
  /** A monotonic clock in milliseconds, unaffected by clock changes; default: `now`. */
  ticks?(): number
}

/** For measuring durations. `now` jumps if someone sets the clock. */
export const ticksOf = (clock: Clock): number => clock.ticks?.() ?? clock.now()

/** Starts at the current time and then only counts elapsed time, unaffected by clock changes. */
export function createSteadyClock(clock: Clock): Clock {
  const origin = clock.now() - ticksOf(clock)
  const now = (): number => Math.round(origin + ticksOf(clock))
  return { now, ticks: () => ticksOf(clock), after: clock.after }
}

/** Smaller changes are ignored, because time servers correct the clock all the time. */
const JUMP_MS = 1_000

/** Returns by how many milliseconds the clock was changed since the last call; 0 if it was not. */
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

/** Monotonic milliseconds. The first use of `performance.now()` would cost as much as a hundred of its calls. */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1_000 + nanoseconds / 1_000_000
}

/** Node fires a longer timer at once, with a warning. */
const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  ticks: monotonicMs,
  after(ms, fn) {
    let timer: NodeJS.Timeout
    const wait = (leftMs: number): void => {
      const nextMs = Math.min(leftMs, MAX_TIMER_MS)
      timer = setTimeout(() => (leftMs > nextMs ? wait(leftMs - nextMs) : fn()), nextMs)
      timer.unref()
    }
    wait(Math.max(0, ms))
    return () => clearTimeout(timer)
  },
}
