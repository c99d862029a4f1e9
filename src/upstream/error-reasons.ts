import { listErrorCodes } from '../core/error-codes.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import { toPrintable } from '../core/printable.ts'
import { scrub } from '../core/scrub.ts'
import { describeTlsError } from '../policy/tls-errors.ts'
import type { ServerSettings } from './upstream-settings.ts'

export function statusOf(error: unknown): number | undefined {
  const { data, code, cause } = error as { data?: { status?: unknown }; code?: unknown; cause?: unknown }
  if (typeof data?.status === 'number') return data.status
  if (typeof code === 'number' && code >= 400 && code < 600) return code
  const status = error instanceof Error ? /\(HTTP (\d{3})\)/.exec(error.message)?.[1] : undefined
  return status ? Number(status) : cause instanceof Error ? statusOf(cause) : undefined
}

export function pegboardCause(error: unknown): PegboardError | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 6; depth++) {
    if (isPegboardError(at)) return at
    const { data, cause } = at as { data?: { cause?: unknown }; cause?: unknown }
    at = cause ?? data?.cause
  }
  return undefined
}

export const abortReason = ({ reason }: AbortSignal): PegboardError =>
  isPegboardError(reason) ? reason : new PegboardError('E_CANCELLED', 'The call was cancelled.')

/** A cause that waiting does not fix, such as a missing program; undefined if there is none. */
export function lastingCause(error: unknown): PegboardError | undefined {
  for (let at = pegboardCause(error); at; at = pegboardCause(at.cause))
    if (at.code === 'E_UPSTREAM_UNAVAILABLE' && !at.retryable) return at
  return undefined
}

/** An error code such as `ECONNREFUSED`, or the TLS problem. Messages of network errors contain addresses. */
export function networkReason(error: unknown): string {
  for (const { code } of listErrorCodes(error)) {
    const tls = describeTlsError(code)
    if (tls !== undefined) return tls
    if (/^(E[A-Z]+|UND_ERR_[A-Z_]+)$/.test(code)) return code
  }
  return 'network error'
}

/**
 * True if the server no longer knows the session: 404 according to the protocol, 400 with a mention of sessions in
 * practice.
 */
export function sessionLost(error: unknown, hasSession: boolean): boolean {
  if (!hasSession) return false
  const status = statusOf(error)
  return status === 404 || (status === 400 && error instanceof Error && /session/i.test(error.message))
}

/** @param line first line of the output, safe to show */
export const notMcp = (line: string): string =>
  `its output is not MCP: ${line}; it may not be an MCP server, or it logs to stdout`

const NOISE =
  /^(at |node:\S|Node\.js v|Emitted 'error' event|\d+: 0x|\^|npm (warn|notice)|npm (error|err!)( \d+)?( A complete log .*)?$|[\s^~{}[\]().,;]*$)/i
const ERROR_WORDS =
  /error|fail|cannot|can't|could not|unable|missing|denied|refused|not found|no such|invalid|required|unauthori[sz]ed|forbidden|expired|must |unset|not set/i
/** npm prints the cause first and explanations after it. */
const CAUSES = [
  /^npm (?:error|err!) .*(?:is not in this registry|could not be found|No matching version)/i,
  /^npm (?:error|err!) (?:code|\d+) (?!ELIFECYCLE)\S/i,
]
const MAX_LINE_CHARS = 200

/**
 * The stderr line that explains a failure: the last one that mentions an error, or the last line of a server that
 * never printed anything else.
 */
export function findErrorLine(stderr: string, hasSentMessage: boolean): string | undefined {
  const lines = toPrintable(stderr)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => !NOISE.test(line))
  const cause = CAUSES.map((one) => lines.find((text) => one.test(text))).find((text) => text !== undefined)
  const line = cause ?? lines.findLast((one) => ERROR_WORDS.test(one)) ?? (hasSentMessage ? undefined : lines.at(-1))
  return line === undefined || line.length <= MAX_LINE_CHARS ? line : `${line.slice(0, MAX_LINE_CHARS)}…`
}

/** Reasons worded by Pegboard. */
const OWN_REASONS =
  /^(?:disconnected: )?(?:it exited with code -?\d+|it was killed by SIG[A-Z\d]+|no answer within [\d.]+ s|it requires authorization \(HTTP \d{3}\)|it lost the session|it did not answer after a pause|it leads back to this Pegboard|its response is not valid MCP|its output is not MCP|(?:HTTP \d{3}|E[A-Z]{4,15}|closed)$)/

/** Keeps only the part of a reason that a server cannot have written. */
export const withoutServerText = (reason: string): string =>
  OWN_REASONS.exec(reason)?.[0] ?? 'it does not work; the log has the reason'

const NETWORK_CODE = /(?:^|: )(?:E[A-Z]{4,}|UND_ERR_[A-Z_]+)$/

/** Makes reasons safe to show. @param isSilent tells whether clients must not see any text of the server */
export function createReasonFilter({ target }: ServerSettings, isSilent: () => boolean) {
  const values = target.kind === 'stdio' ? target.env : target.headers
  const secrets = Object.values(values).filter((value) => value.length >= 6)
  // `ECONNREFUSED` alone does not tell which of several servers or addresses failed.
  const host = target.kind === 'stdio' ? undefined : new URL(target.url).host
  const withoutSecrets = (why: string): string =>
    secrets.reduce((text, secret) => text.replaceAll(secret, '<secret>'), why)
  return {
    /** Without configured secrets, paths and addresses. */
    forClients: (why: string): string => scrub(withoutSecrets(isSilent() ? withoutServerText(why) : why)),
    /** Without configured secrets. */
    forOperators(why: string): string {
      const text = withoutSecrets(why)
      return host !== undefined && NETWORK_CODE.test(text) ? `${text} (${host})` : text
    },
  }
}

export type ReasonFilter = ReturnType<typeof createReasonFilter>
