import { messageOf, PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { toPrintable } from '../core/printable.ts'
import { truncate } from '../core/truncate.ts'
import type { EraVerdict } from './era-history.ts'
import { lastingCause, networkReason, pegboardCause, statusOf } from './error-reasons.ts'
import type { FastRequest } from './fast-requests.ts'
import type { Credentials } from './http-credentials.ts'
import { createHttpTransport } from './http-transport.ts'
import { type AttemptOutcome, openConnection, type Prior } from './open-connection.ts'
import type { Habits } from './per-client-queue.ts'
import { createStdioTransport } from './stdio-transport.ts'
import type { RecordAndReplay, UpstreamTransport } from './transport.ts'
import type { HttpTarget, ServerSettings, StdioTarget } from './upstream-settings.ts'
import type { ProcessServices, UpstreamShared } from './upstream-shared.ts'

export type RequestOptions = Omit<FastRequest, 'onLimit'>

/** What a server says about itself: its `serverInfo`. Unchecked, except for the lengths. */
export interface Implementation {
  readonly name: string
  readonly version: string
  /** Its description, or else the beginning of its instructions. */
  readonly about?: string
}

export interface Connection {
  readonly transport: 'stdio' | 'http' | 'sse'
  readonly era: 'legacy' | 'modern'
  /** Result of the era probe; `none`: not probed. */
  readonly probe: 'answered' | 'silent' | 'none'
  readonly capabilities: Json
  readonly implementation: Implementation | undefined
  /** Ids of the Pegboards that its tools come through, from its last list. */
  readonly gateways: readonly string[]
  /**
   * Sends a request and returns the server's result unchecked.
   * @throws ProtocolFailure for a JSON-RPC error; PegboardError E_TIMEOUT, E_CANCELLED, E_TOO_LARGE,
   * E_UPSTREAM_UNAVAILABLE, E_UPSTREAM_PROTOCOL
   */
  request(method: string, params: Json, options: RequestOptions): Promise<Json>
  /** Replaces the subscribed resources (2026-era servers). Resolves when the server has acknowledged them. */
  watch(uris: readonly string[]): Promise<void>
  /** Sets the log level; 2026-era servers get it with every request. */
  setLogLevel(level: string): void
  stderrTail(): string
  close(graceMs?: number): Promise<void>
}

export interface ConnectOptions
  extends ProcessServices,
    Pick<UpstreamShared, 'clientInfo' | 'gateway'>,
    RecordAndReplay {
  readonly id: string
  readonly settings: ServerSettings
  readonly log: Log
  /** Called when the process starts, with a function that returns the end of its stderr, even after it has ended. */
  onStart(stderrTail: () => string): void
  /** Do not restart the server without the probe if it ends during the probe, because it has also ended without one. */
  readonly once: boolean
  /** Result of an earlier probe, so that a legacy server need not be probed again. */
  readonly verdict: EraVerdict | undefined
  readonly connectTimeoutMs: number
  /** Longer timeout while the server has printed nothing at all. */
  readonly silentTimeoutMs?: number
  readonly signal: AbortSignal
  readonly credentials: Credentials
  /** What other connections learned about the server. */
  readonly habits: Habits
  /** Any notification except progress. `attributed` is true if the caller it belongs to has already received it. */
  onNotification(method: string, params: Json, attributed: boolean): void
  /** Called if a server that Pegboard treats as a legacy one answers the probe late. */
  onModern(): void
  /** Makes a reason safe for clients. */
  tell(reason: string): string
  /** The server prints something else than MCP messages. */
  onNoise(reason: string): void
  onProbeFatal(): void
  /** The connection was lost. Not called for a connection that was never established, nor after `close`. */
  onClosed(reason: string): void
}

/**
 * Opens a transport and determines the server's protocol era: first the probe of the newer era, then `initialize` if
 * the probe is rejected or ignored, on the same process. A server that dies of the probe is restarted without it.
 * @throws PegboardError E_UPSTREAM_UNAVAILABLE, or one of `REFUSALS`, with a reason for people
 */
export async function connect(options: ConnectOptions): Promise<Connection> {
  try {
    return await connectAs(options)
  } catch (error) {
    // The server has been updated to the newer era; callers waiting for it need not know.
    if (options.verdict?.era !== 'legacy' || !refusesEra(error)) throw error
    return await connectAs({ ...options, verdict: undefined })
  }
}

/** A JSON-RPC error as the answer to the handshake. */
function refusesEra(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown }
  return typeof code === 'number' && code < 0
}

async function connectAs(options: ConnectOptions): Promise<Connection> {
  const { replay, id } = options
  const { target } = options.settings
  if (replay) return await connectToRecording(options, () => replay(id))
  return target.kind === 'stdio' ? await connectOverStdio(options, target) : await connectOverHttp(options, target)
}

const LEGACY: Prior = { kind: 'legacy' }
/** A server known to be of the older era is not probed. */
const knownEra = ({ verdict }: ConnectOptions): Prior | undefined => (verdict?.era === 'legacy' ? LEGACY : undefined)

async function connectToRecording(options: ConnectOptions, replay: () => UpstreamTransport): Promise<Connection> {
  try {
    const transport = replay()
    // The recording knows whether the server was of the older era, so the probe costs nothing.
    return await openConnection(options, transport, transport.kind === 'sse' ? LEGACY : undefined, {})
  } catch (error) {
    throw createUnavailableError(error)
  }
}

async function connectOverStdio(options: ConnectOptions, target: StdioTarget): Promise<Connection> {
  const { where } = options.settings
  const createTransport = (): UpstreamTransport =>
    recorded(options, createStdioTransport({ ...options, target, where }))
  const outcome: AttemptOutcome = {}
  try {
    return await openConnection(options, createTransport(), knownEra(options), outcome)
  } catch (error) {
    const prior = priorOfRestart(options, outcome)
    if (!prior) throw createUnavailableError(error)
    return await openConnection(options, createTransport(), prior, {}).catch((again: unknown) => {
      throw createUnavailableError(again)
    })
  }
}

/** How to start a server again whose first attempt failed because of the probe; undefined if it was not that. */
function priorOfRestart(options: ConnectOptions, { probeFatal, discover }: AttemptOutcome): Prior | undefined {
  if (knownEra(options) || options.signal.aborted) return undefined
  if (probeFatal) options.onProbeFatal()
  if (discover) return { kind: 'modern', discover: discover as never }
  return probeFatal && !options.once ? LEGACY : undefined
}

async function connectOverHttp(options: ConnectOptions, target: HttpTarget): Promise<Connection> {
  const { settings, verdict, credentials, maxAnswerBytes } = options
  const kinds: ReadonlyArray<'http' | 'sse'> =
    target.kind === 'sse' || verdict?.transport === 'sse' ? ['sse'] : ['http', 'sse']
  let firstError: unknown
  let waitMs: number | undefined
  for (const kind of kinds) {
    const transport = recorded(options, await createHttpTransport(settings, target, kind, credentials, maxAnswerBytes))
    try {
      return await openConnection(options, transport, kind === 'http' ? knownEra(options) : LEGACY, {})
    } catch (error) {
      firstError ??= error
      waitMs ??= transport.retryAfterMs
      if (!mayBeOlderTransport(error)) break
    }
  }
  const key = Object.keys(target.headers).length > 0 ? `${settings.where}.headers` : undefined
  throw createUnavailableError(firstError, waitMs, key)
}

/** Only an endpoint that rejects POST can be of the older HTTP+SSE transport. */
const mayBeOlderTransport = (error: unknown): boolean => [400, 404, 405, 406].includes(statusOf(error) ?? 0)

const recorded = ({ id, record }: ConnectOptions, transport: UpstreamTransport): UpstreamTransport =>
  record ? record(id, transport) : transport

const createUnavailableError = (error: unknown, retryAfterMs?: number, key?: string): PegboardError => {
  const cause = pegboardCause(error)
  if (cause !== undefined && REFUSALS.has(cause.code)) return cause
  const permanentCause = lastingCause(error)
  if (permanentCause) return permanentCause
  const isUnauthorized = cause === undefined && wantsAuthorization(statusOf(error))
  return new PegboardError(
    isUnauthorized ? 'E_AUTH_REQUIRED' : 'E_UPSTREAM_UNAVAILABLE',
    cause?.message ?? reasonOf(error, key),
    {
      cause: error,
      hint: isUnauthorized && key !== undefined ? 'The operator must correct this key.' : undefined,
      retryAfterMs,
    },
  )
}

/** Errors that a person must fix; their codes are passed on. */
export const REFUSALS: ReadonlySet<string> = new Set([
  'E_AUTH_REQUIRED',
  'E_SSRF_BLOCKED',
  'E_REDIRECT_BLOCKED',
  'E_LOOP_DETECTED',
  'E_RECORDING',
  'E_NOT_RECORDED',
])

const wantsAuthorization = (status: number | undefined): boolean => status === 401 || status === 403

/** @param key setting with the credentials that the server rejected */
function reasonOf(error: unknown, key?: string): string {
  const status = statusOf(error)
  if (wantsAuthorization(status))
    return key === undefined
      ? `it requires authorization (HTTP ${status})`
      : `it rejects the value of ${key} (HTTP ${status})`
  if (status === 404) return 'HTTP 404; check the path of its address, which is usually /mcp'
  if (status !== undefined) return `HTTP ${status}`
  const network = networkReason(error)
  if (network !== 'network error') return network
  // A JSON-RPC error has the words of the server, which must not pass for those of Pegboard.
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'number' ? `it refused: ${quoted(messageOf(error))}` : explainMessage(messageOf(error))
}

const MAX_QUOTED = 200
const quoted = (text: string): string => JSON.stringify(truncate(toPrintable(text), MAX_QUOTED))

function explainMessage(message: string): string {
  const [, ms] = /^Version negotiation probe timed out after (\d+)ms/.exec(message) ?? []
  if (ms !== undefined) return `no answer within ${Number(ms) / 1_000} s`
  const [, reply] = /unusable reply \((.*)\)$/.exec(message) ?? []
  if (reply !== undefined) return `its response is not MCP (${reply})`
  return message.replace(/^Version negotiation (?:probe )?failed: /, 'its response is not valid MCP: ')
}
