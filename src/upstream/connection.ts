import type { Clock } from '../core/clock.ts'
import type { Stop } from '../core/ending.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Relay } from '../core/tool.ts'
import type { Environment } from '../programs/spawn.ts'
import type { Strays } from '../programs/strays.ts'
import type { Watchdog } from '../programs/watchdog.ts'
import type { Habits } from './alone.ts'
import type { Credentials } from './credentials.ts'
import { createHttpWire } from './http.ts'
import type { Flood } from './intake.ts'
import type { EraVerdict } from './manifest.ts'
import { openConnection, type Prior, type Seen } from './open.ts'
import { networkReason, pegboardCause, statusOf } from './reasons.ts'
import type { ServerSettings } from './settings.ts'
import type { Starts } from './starts.ts'
import { createStdioWire } from './stdio.ts'
import type { Wire } from './wire.ts'

type Json = Readonly<Record<string, unknown>>

export interface RequestOptions {
  readonly timeoutMs: number
  readonly signal?: Stop | undefined
  readonly relay?: Relay | undefined
  readonly onProgress?: ((params: Json) => void) | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** One live, initialised connection to a server. */
export interface Connection {
  readonly transport: 'stdio' | 'http' | 'sse'
  readonly era: 'legacy' | 'modern'
  /** What came of asking for its era; `none`: it was not asked. */
  readonly probe: 'answered' | 'silent' | 'none'
  readonly capabilities: Json
  readonly server: { readonly name: string; readonly version: string } | undefined
  /** Ids of the Pegboards its tools come through, as its last list said. */
  readonly gateways: readonly string[]
  /**
   * Sends a request and gives its result as the server sent it, unchecked.
   * @throws ProtocolFailure for a JSON-RPC error; PegboardError E_TIMEOUT, E_CANCELLED, E_TOO_LARGE,
   *   E_UPSTREAM_UNAVAILABLE, E_UPSTREAM_PROTOCOL
   */
  request(method: string, params: Json, options: RequestOptions): Promise<Json>
  /** Asks for updates of these resources instead of the ones asked for before (2026-era servers). Resolves when it is heard. */
  watch(uris: readonly string[]): Promise<void>
  /** 2026-era servers are told the level with every request. */
  setLogLevel(level: string): void
  /** What the server last wrote to stderr. */
  tail(): string
  close(graceMs?: number): Promise<void>
}

export interface ConnectOptions {
  readonly id: string
  readonly settings: ServerSettings
  readonly environment: Environment
  readonly platform: string
  readonly clientInfo: { readonly name: string; readonly version: string }
  /** Our own id, which no list of a server may lead back to; absent: lists are not looked at for that. */
  readonly gateway?: (() => string) | undefined
  readonly clock: Clock
  readonly log: Log
  /** One that dies of the probe is not started again without it: it died of both before. */
  readonly once?: boolean
  /** What the last connection found out, to spare a legacy server the probe. */
  readonly verdict?: EraVerdict | undefined
  readonly connectTimeoutMs: number
  /** Longer: for as long as the server has printed nothing at all. */
  readonly silentTimeoutMs?: number
  /** Ends an attempt that is under way. */
  readonly signal: AbortSignal
  readonly maxFrameBytes?: number | undefined
  readonly maxAnswerBytes?: number | undefined
  /** Who we are to a remote server. */
  readonly credentials?: Credentials | undefined
  /** What is known of the server from other connections. */
  readonly habits?: Habits | undefined
  /** Every live child leaves a function here that ends it at once. */
  readonly reapers: Set<() => void>
  readonly starts: Starts
  readonly strays: Strays
  readonly flood: Flood
  readonly watchdog: Watchdog
  /** Any notification but progress. `attributed` when the caller it belongs to has it already. */
  onNotification(method: string, params: Json, attributed: boolean): void
  /** A server taken for a legacy one has answered the probe after all. */
  onModern(): void
  /** It prints something else in place of answers. */
  onNoise?(reason: string): void
  /** It died when it was probed. */
  onProbeFatal?(): void
  /** The connection is gone. Not called for a connection that never was, nor after `close`. */
  onClosed(reason: string): void
}

/**
 * Opens a channel and finds out which protocol the server speaks, on the one process it is given: the newer era's
 * probe first, `initialize` when it is refused or ignored. A server that dies of the probe is started again without it.
 * @throws PegboardError E_UPSTREAM_UNAVAILABLE, or one of `REFUSALS`, with a reason fit for people
 */
export async function connect(options: ConnectOptions): Promise<Connection> {
  try {
    return await connectAs(options)
  } catch (error) {
    // It has learnt the newer era since; whoever waits for it need not hear of that.
    if (options.verdict?.era !== 'legacy' || !refusesEra(error)) throw error
    return await connectAs({ ...options, verdict: undefined })
  }
}

/** A JSON-RPC error as the answer to the opening. */
function refusesEra(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown }
  return typeof code === 'number' && code < 0
}

async function connectAs(options: ConnectOptions): Promise<Connection> {
  const { target, where } = options.settings
  const legacy: Prior | undefined = options.verdict?.era === 'legacy' ? { kind: 'legacy' } : undefined
  if (target.kind === 'stdio') {
    const wire = (): Wire => createStdioWire({ ...options, target, where })
    const seen: Seen = {}
    try {
      return await openConnection(options, wire(), legacy, seen)
    } catch (error) {
      if (legacy || options.signal.aborted) throw unavailable(error)
      if (seen.probeFatal) options.onProbeFatal?.()
      const prior = seen.discover
        ? { kind: 'modern' as const, discover: seen.discover as never }
        : seen.probeFatal && !options.once && { kind: 'legacy' as const }
      if (!prior) throw unavailable(error)
      return await openConnection(options, wire(), prior, {}).catch((again: unknown) => {
        throw unavailable(again)
      })
    }
  }
  const kinds: Array<'http' | 'sse'> =
    target.kind === 'sse' || options.verdict?.transport === 'sse' ? ['sse'] : ['http', 'sse']
  let first: unknown
  let waitMs: number | undefined
  for (const kind of kinds) {
    const wire = await createHttpWire(options.settings, target, kind, options.credentials)
    try {
      return await openConnection(options, wire, kind === 'http' ? legacy : { kind: 'legacy' }, {})
    } catch (error) {
      first ??= error
      waitMs ??= wire.retryAfterMs
      // Only an endpoint that does not take POST may be the older kind.
      const status = statusOf(error)
      if (status === undefined || ![400, 404, 405, 406].includes(status)) break
    }
  }
  const key = Object.keys(target.headers).length > 0 ? `${where}.headers` : undefined
  throw unavailable(first, waitMs, key)
}

const unavailable = (error: unknown, retryAfterMs?: number, key?: string): PegboardError => {
  const cause = pegboardCause(error)
  if (cause !== undefined && REFUSALS.has(cause.code)) return cause
  const closed = cause === undefined && wantsAuthorization(statusOf(error))
  return new PegboardError(
    closed ? 'E_AUTH_REQUIRED' : 'E_UPSTREAM_UNAVAILABLE',
    cause?.message ?? reasonOf(error, key),
    {
      cause: error,
      ...(closed && key !== undefined
        ? { hint: 'Tell the person who runs Pegboard; only they can correct that key.' }
        : {}),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  )
}

/** What a person has to change: their codes are told as they are. */
export const REFUSALS: ReadonlySet<string> = new Set([
  'E_AUTH_REQUIRED',
  'E_SSRF_BLOCKED',
  'E_REDIRECT_BLOCKED',
  'E_LOOP_DETECTED',
])

const wantsAuthorization = (status: number | undefined): boolean => status === 401 || status === 403

/** @param key the setting that has what the server may refuse */
function reasonOf(error: unknown, key?: string): string {
  const status = statusOf(error)
  if (wantsAuthorization(status))
    return key === undefined
      ? `it wants authorization (HTTP ${status})`
      : `it refuses what it is given by ${key} (HTTP ${status})`
  if (status === 404) return 'HTTP 404; perhaps the path of its address is wrong, which is mostly /mcp'
  if (status !== undefined) return `HTTP ${status}`
  const network = networkReason(error)
  return network === 'network error' ? plainly(messageOf(error)) : network
}

/** What the SDK says of its first request, in words that need no knowledge of it. */
function plainly(message: string): string {
  const [, ms] = /^Version negotiation probe timed out after (\d+)ms/.exec(message) ?? []
  if (ms !== undefined) return `no answer within ${Number(ms) / 1_000} s`
  const [, reply] = /unusable reply \((.*)\)$/.exec(message) ?? []
  if (reply !== undefined) return `it answers with something that is not MCP (${reply})`
  return message.replace(/^Version negotiation (?:probe )?failed: /, 'it does not answer as an MCP server does: ')
}
