import { hash, randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.ts'

const SECRET_BYTES = 32
/** How long a session lasts, in milliseconds. */
export const SESSION_MS = 12 * 60 * 60_000
const MAX_SESSIONS = 20
const MAX_LINKS = 20
const MAX_FAILED = 20
const MINUTE_MS = 60_000

/** Logins of the page. Only digests are kept. */
export function createUiSessions(clock: Clock) {
  const links = new Map<string, number>()
  const sessions = new Map<string, number>()
  let failures: number[] = []
  const digestOf = (secret: string): string => hash('sha256', secret, 'hex')
  const recent = (): number[] => failures.filter((at) => clock.now() - at < MINUTE_MS)

  function add(to: Map<string, number>, lifeMs: number, most: number): string {
    const secret = randomBytes(SECRET_BYTES).toString('base64url')
    for (const [digest, until] of to) if (until <= clock.now()) to.delete(digest)
    if (to.size >= most) to.delete(to.keys().next().value as string)
    to.set(digestOf(secret), clock.now() + lifeMs)
    return secret
  }
  const open = (): string => add(sessions, SESSION_MS, MAX_SESSIONS)

  return {
    /** A code that opens one session, within `lifeMs`. */
    createLink: (lifeMs: number): string => add(links, lifeMs, MAX_LINKS),
    /** Opens a session and returns its secret; undefined for a code that is unknown, used or too old. */
    redeem(code: string): string | undefined {
      const digest = digestOf(code)
      const until = links.get(digest)
      links.delete(digest)
      return until !== undefined && clock.now() < until ? open() : undefined
    },
    open,
    has(secret: string): boolean {
      const until = sessions.get(digestOf(secret))
      return until !== undefined && clock.now() < until
    },
    close: (secret: string): void => void sessions.delete(digestOf(secret)),
    /** True if too many logins failed within a minute. */
    get isLocked(): boolean {
      failures = recent()
      return failures.length >= MAX_FAILED
    },
    failed(): void {
      failures = [...recent(), clock.now()].slice(-MAX_FAILED)
    },
  }
}
