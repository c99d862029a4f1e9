import { isPegboardError, type PegboardError } from '../core/errors.ts'
import { plain } from '../core/plain.ts'
import { tlsTrouble } from '../policy/tls.ts'

/** The HTTP status an SDK error carries, if any. */
export function statusOf(error: unknown): number | undefined {
  const { data, code, cause } = error as { data?: { status?: unknown }; code?: unknown; cause?: unknown }
  if (typeof data?.status === 'number') return data.status
  if (typeof code === 'number' && code >= 400 && code < 600) return code
  const said = error instanceof Error ? /\(HTTP (\d{3})\)/.exec(error.message)?.[1] : undefined
  return said ? Number(said) : cause instanceof Error ? statusOf(cause) : undefined
}

/** The error of ours behind one of the SDK's, if any. */
export function pegboardCause(error: unknown): PegboardError | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 6; depth++) {
    if (isPegboardError(at)) return at
    const { data, cause } = at as { data?: { cause?: unknown }; cause?: unknown }
    at = cause ?? data?.cause
  }
  return undefined
}

/** `ECONNREFUSED` and the like, or what is wrong with TLS: messages of network errors carry addresses. */
export function networkReason(error: unknown): string {
  for (let at = error, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth++) {
    const { code } = at as NodeJS.ErrnoException
    const tls = tlsTrouble(String(code))
    if (tls !== undefined) return tls
    if (typeof code === 'string' && /^(E[A-Z]+|UND_ERR_[A-Z_]+)$/.test(code)) return code
  }
  return 'network error'
}

/** The server no longer knows our session: 404 says the protocol, 400 with a word about it say many servers. */
export function sessionLost(error: unknown, hasSession: boolean): boolean {
  if (!hasSession) return false
  const status = statusOf(error)
  return status === 404 || (status === 400 && error instanceof Error && /session/i.test(error.message))
}

/** @param line the first of them, as it may be shown */
export const notMcp = (line: string): string =>
  `it prints things that are not MCP: ${line}; perhaps it is no MCP server, or logs to stdout`

const NOISE =
  /^(at |node:\S|Node\.js v|\^|npm (warn|notice)|npm (error|err!)( \d+)?( A complete log .*)?$|[\s^~{}[\]().,;]*$)/i
const TROUBLE =
  /error|fail|cannot|can't|could not|unable|missing|denied|refused|not found|no such|invalid|required|unauthori[sz]ed|forbidden|expired|must |unset|not set/i
/** npm says what went wrong first, and then a good deal about it. */
const CAUSES = [
  /^npm (?:error|err!) .*(?:is not in this registry|could not be found|No matching version)/i,
  /^npm (?:error|err!) (?:code|\d+) (?!ELIFECYCLE)\S/i,
]
const MAX_WORDS = 200

/**
 * The line of a server's stderr that says what went wrong: the last that speaks of trouble, else the last of a server
 * that never said anything else.
 */
export function lastWords(stderr: string, spoke: boolean): string | undefined {
  const lines = plain(stderr)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => !NOISE.test(line))
  const cause = CAUSES.map((one) => lines.find((text) => one.test(text))).find((text) => text !== undefined)
  const line = cause ?? lines.findLast((one) => TROUBLE.test(one)) ?? (spoke ? undefined : lines.at(-1))
  return line === undefined || line.length <= MAX_WORDS ? line : `${line.slice(0, MAX_WORDS)}…`
}
