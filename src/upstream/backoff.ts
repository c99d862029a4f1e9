import type { Clock } from '../core/clock.ts'

const FIRST_MS = 1_000
const LONGEST_MS = 60_000
const HEALTHY_MS = 60_000
/** A call may bring the next attempt forward, but not closer than this to the last one. */
const CALL_MS = 5_000
/** Failures in a row that open the circuit. */
export const OPEN_AFTER = 5
const OPEN_MS = 30_000
/** No server keeps us away longer than this, whatever its `Retry-After` says. */
export const LONGEST_ASKED_MS = 60 * 60_000

/**
 * When to try again: after 1 s, 2 s, 4 s … 60 s, each shortened by chance so that servers do not return in step, and
 * never for the last time. From the fifth failure in a row on the circuit is open: attempts are 30 to 60 s apart.
 */
export interface Backoff {
  /** How often in a row it went wrong; 0 while all is well. */
  readonly attempt: number
  /** Five failures in a row: calls are refused at once until an attempt succeeds. */
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

  const isOpen = (): boolean => attempt >= OPEN_AFTER

  function wait(askedMs = 0): number {
    const ladder = random() * Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt - 1, 16))
    const asked = Math.min(askedMs, LONGEST_ASKED_MS)
    const now = clock.now()
    dueAt = Math.max(isOpen() ? now + OPEN_MS : beganAt + CALL_MS, now + asked)
    return Math.round(Math.max(isOpen() ? OPEN_MS : 100, ladder, asked))
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
      attempt++
      return wait(askedMs)
    },
    lost(askedMs, failures = 1) {
      attempt = failures + (upSince !== undefined && clock.now() - upSince >= HEALTHY_MS ? 0 : attempt)
      upSince = undefined
      return wait(askedMs)
    },
    dueInMs: () => Math.max(0, dueAt - clock.now()),
  }
}
