import type { Clock } from '../core/clock.ts'

const FIRST_MS = 1_000
const LONGEST_MS = 60_000
const HEALTHY_MS = 60_000

/** When to try again: after 1 s, 2 s, 4 s … 60 s, each shortened by chance so that servers do not return in step. */
export interface Backoff {
  /** How often in a row it went wrong; 0 while all is well. */
  readonly attempt: number
  begin(): void
  succeeded(): void
  /** An attempt failed. Gives the milliseconds to wait. */
  failed(): number
  /** A connection that had been made broke. One that lasted a minute starts the count anew. */
  lost(): number
  /** Milliseconds since the last attempt began. */
  idleMs(): number
}

export function createBackoff(clock: Clock, random: () => number = Math.random): Backoff {
  let attempt = 0
  let beganAt = Number.NEGATIVE_INFINITY
  let upSince: number | undefined
  const wait = (): number => Math.max(100, Math.round(random() * Math.min(LONGEST_MS, FIRST_MS * 2 ** (attempt - 1))))
  return {
    get attempt() {
      return attempt
    },
    begin() {
      beganAt = clock.now()
    },
    succeeded() {
      upSince = clock.now()
    },
    failed() {
      attempt++
      return wait()
    },
    lost() {
      attempt = upSince !== undefined && clock.now() - upSince >= HEALTHY_MS ? 1 : attempt + 1
      upSince = undefined
      return wait()
    },
    idleMs: () => clock.now() - beganAt,
  }
}
