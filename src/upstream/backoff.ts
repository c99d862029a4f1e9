import type { Clock } from '../core/clock.ts'

const FIRST_MS = 1_000
const LONGEST_MS = 60_000
const HEALTHY_MS = 60_000
/** A call may trigger an earlier attempt, but not sooner than this after the last one. */
const CALL_MS = 5_000
/** Consecutive failures that open the circuit. */
export const OPEN_AFTER = 5
/** The first attempts are close together, so the circuit stays closed for this long: a restart takes a while. */
const OPEN_NOT_BEFORE_MS = 10_000
const OPEN_MS = 30_000
/** Maximum wait that a server can demand with `Retry-After`. */
export const MAX_RETRY_AFTER_MS = 60 * 60_000

/**
 * Retry delays: 1 s, 2 s, 4 s … 60 s, each with random jitter so that servers do not reconnect in step. Retries never
 * stop. From the fifth consecutive failure on, but not within ten seconds of the first, the circuit is open: attempts
 * are 30 to 60 s apart.
 */
export function createBackoff(clock: Clock, random: () => number = Math.random) {
  let attempt = 0
  let upSince: number | undefined
  let dueAt = Number.NEGATIVE_INFINITY
  let beganAt = Number.NEGATIVE_INFINITY

  let firstAt = 0
  let lastAt = 0
  let isForcedOpen = false

  const isOpen = (): boolean => attempt >= OPEN_AFTER && (isForcedOpen || lastAt - firstAt >= OPEN_NOT_BEFORE_MS)

  function count(failures: number): void {
    lastAt = clock.now()
    if (attempt === 0) firstAt = lastAt
    attempt += failures
    isForcedOpen ||= failures >= OPEN_AFTER
  }

  function nextDelayMs(askedMs = 0): number {
    const backoffMs = random() * Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt - 1, 16))
    const cappedMs = Math.min(askedMs, MAX_RETRY_AFTER_MS)
    const now = clock.now()
    dueAt = Math.max(isOpen() ? now + OPEN_MS : beganAt + CALL_MS, now + cappedMs)
    const minimumMs = isOpen() ? OPEN_MS : attempt >= OPEN_AFTER ? FIRST_MS : 100
    return Math.round(Math.max(minimumMs, backoffMs, cappedMs))
  }

  return {
    /** Number of consecutive failures; 0 if there are none. */
    get attempt(): number {
      return attempt
    },
    /** The circuit is open: calls fail at once until an attempt succeeds. */
    get open(): boolean {
      return isOpen()
    },
    begin(): void {
      beganAt = clock.now()
    },
    succeeded(): void {
      upSince = clock.now()
    },
    /**
     * Records a failed attempt.
     * @returns the delay before the next one, in milliseconds
     * @param askedMs minimum delay that the server requested
     */
    failed(askedMs?: number): number {
      count(1)
      return nextDelayMs(askedMs)
    },
    /**
     * Records a broken connection. If the connection lasted at least a minute, counting starts again.
     * @param failures number of failures it counts as, default 1
     */
    connectionLost(askedMs?: number, failures = 1): number {
      if (upSince !== undefined && clock.now() - upSince >= HEALTHY_MS) {
        attempt = 0
        isForcedOpen = false
      }
      upSince = undefined
      count(failures)
      return nextDelayMs(askedMs)
    },
    /** Milliseconds until a call may start an attempt; 0 if it may now. */
    dueInMs: (): number => Math.max(0, dueAt - clock.now()),
  }
}
