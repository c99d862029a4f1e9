import type { Clock } from '../core/clock.ts'

const FIRST_MS = 1_000
const LONGEST_MS = 60_000
const HEALTHY_MS = 60_000
/** A call may bring the next attempt forward, but not closer than this to the last one. */
const CALL_MS = 5_000
/** Failures in a row that open the circuit. */
export const OPEN_AFTER = 5
/** Attempts are close together at first, so they do not open it before this much time: a restart takes a while. */
const OPEN_NOT_BEFORE_MS = 10_000
const OPEN_MS = 30_000
/** No server keeps us away longer than this, whatever its `Retry-After` says. */
export const LONGEST_ASKED_MS = 60 * 60_000

/**
 * When to try again: after 1 s, 2 s, 4 s … 60 s, each shortened by chance so that servers do not return in step, and
 * never for the last time. From the fifth failure in a row on, but not within ten seconds of the first, the circuit is
 * open: attempts are 30 to 60 s apart. Five failures at once open it at once.
 */
export interface Backoff {
  /** How often in a row it went wrong; 0 while all is well. */
  readonly attempt: number
  /** Five failures in a row, and it is no short restart: calls are refused at once until an attempt succeeds. */
  readonly open: boolean
  begin(): void
  succeeded(): void
  /** An attempt failed. Gives the milliseconds to wait. @param askedMs what the server asked us to wait at least */
  failed(askedMs?: number): number
  /**
   * A connection that had been made broke. One that lasted a minute starts the count anew.
   * @param failures how many failures that was, default 1
   */
  lost(askedMs?: number, failures?: number): number
  /** Milliseconds until a call may start an attempt; 0 when it may. */
  dueInMs(): number
}

export function createBackoff(clock: Clock, random: () => number = Math.random): Backoff {
  let attempt = 0
  let upSince: number | undefined
  let dueAt = Number.NEGATIVE_INFINITY
  let beganAt = Number.NEGATIVE_INFINITY

  let firstAt = 0
  let lastAt = 0
  let atOnce = false

  const isOpen = (): boolean => attempt >= OPEN_AFTER && (atOnce || lastAt - firstAt >= OPEN_NOT_BEFORE_MS)

  function count(failures: number): void {
    lastAt = clock.now()
    if (attempt === 0) firstAt = lastAt
    attempt += failures
    atOnce ||= failures >= OPEN_AFTER
  }

  function wait(askedMs = 0): number {
    const ladder = random() * Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt - 1, 16))
    const asked = Math.min(askedMs, LONGEST_ASKED_MS)
    const now = clock.now()
    dueAt = Math.max(isOpen() ? now + OPEN_MS : beganAt + CALL_MS, now + asked)
    const least = isOpen() ? OPEN_MS : attempt >= OPEN_AFTER ? FIRST_MS : 100
    return Math.round(Math.max(least, ladder, asked))
  }

  return {
    get attempt() {
      return attempt
    },
    get open() {
      return isOpen()
    },
    begin() {
      beganAt = clock.now()
    },
    succeeded() {
      upSince = clock.now()
    },
    failed(askedMs) {
      count(1)
      return wait(askedMs)
    },
    lost(askedMs, failures = 1) {
      if (upSince !== undefined && clock.now() - upSince >= HEALTHY_MS) {
        attempt = 0
        atOnce = false
      }
      upSince = undefined
      count(failures)
      return wait(askedMs)
    },
    dueInMs: () => Math.max(0, dueAt - clock.now()),
  }
}
