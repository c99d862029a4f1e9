import { createServer, type IncomingMessage, type Server as NodeServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Observer } from '../core/observer-types.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { MetricPoint, MetricRegistry } from '../observe/metric-registry.ts'
import { toPrometheusText } from '../observe/prometheus.ts'
import { createAccessTokens } from './access-tokens.ts'
import { createAuthenticator } from './authenticate.ts'
import { type BearerToken, createBearerToken } from './bearer-tokens.ts'
import { createPulse, createStreamSlots } from './event-stream.ts'
import { HttpError, sendHttpError } from './http-error.ts'
import { createSse } from './http-sse-2024/legacy-sse.ts'
import { createEventLog } from './legacy-2025/event-log.ts'
import { createSessions } from './legacy-2025/http-sessions.ts'
import type { SessionHandover } from './legacy-2025/session-handover.ts'
import { limitWaiting } from './limit-waiting.ts'
import { createModernHttp, type ModernHooks } from './modern-2026/modern-http.ts'
import { createOpenConnections } from './open-connections.ts'
import { createOriginCheck, isLoopback, urlHost } from './origin-check.ts'
import type { ProcessRpc } from './process-rpc.ts'
import { createHandlers, handle, type Page, type RouterContext } from './router.ts'
import type { ServerFactory } from './server-factory.ts'
import type { HttpSettings } from './server-options.ts'
import type { TokenStore } from './token-store.ts'

export interface HttpOptions {
  readonly settings: HttpSettings
  /** `server.http.token`. One token of any kind is required unless `settings.auth` is `none`. */
  readonly token: string | undefined
  /** Tokens of `pegboard token`. Connections end with their token. */
  readonly tokens?: TokenStore | undefined
  /** Profile of requests whose path names none; default `default`. */
  readonly profile?: string
  /** Default: only `profile` exists. */
  readonly hasProfile?: (name: string) => boolean
  readonly factory: ServerFactory
  /** How 2026 requests get their identity, subscriptions and notifications. */
  readonly modern: ModernHooks
  /** Shares 2025 sessions with other processes; absent: sessions belong to this process. */
  readonly handover?: SessionHandover | undefined
  readonly processes?: ProcessRpc | undefined
  readonly log: Log
  readonly clock: Clock
  /** The body of `GET /health`. Needs no token. */
  health(): object
  /** The reason why `GET /ready` answers 503, shown without a token; default: always ready. */
  ready?(): Promise<string | undefined>
  /** Metrics for `GET /metrics`; absent: the route does not exist. */
  readonly metrics?: MetricRegistry | undefined
  /** Runs a request as part of the trace that its headers name; absent: tracing is off. */
  readonly within?: Observer['runInContext'] | undefined
  /** The page of the operator (default: none). @param url the address of this server, once it listens */
  readonly page?: ((url: () => string) => Page) | undefined
}

export interface HttpServer {
  /** `http://127.0.0.1:PORT`, without a path. */
  readonly url: string
  readonly port: number
  sessions(): { readonly streamable: number; readonly sse: number }
  /** Makes `GET /ready` answer 503. Other requests are answered as before. */
  drain(): void
  /** Refuses new requests, waits up to `graceMs` (default 0) for running ones, then closes all streams and sessions. */
  close(graceMs?: number): Promise<void>
}

/** Maximum interval between two checks of Node for slow requests, in milliseconds. */
const CHECK_MS = 5_000
/** A call that runs this long (up to twice as long) gets a stream that can be resumed. */
const SOON_MS = 500
/** Longer than in the pools of common clients, so that the client closes an idle connection first. */
const KEEP_ALIVE_TIMEOUT_MS = 60_000

/**
 * Serves MCP over HTTP: `/mcp` for both revisions of Streamable HTTP, `/sse` and `/messages` for the transport before it.
 * @throws PegboardError E_CONFIG_AUTH without a token where one is needed, E_ADDRESS_UNAVAILABLE if it cannot listen on the address
 */
export async function serveHttp(options: HttpOptions): Promise<HttpServer> {
  const { settings, clock, factory, log, profile = DEFAULT_PROFILE } = options
  if (/[/\\]/.test(settings.host))
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `server.http.host: "${settings.host}" is a path. Pegboard does not listen on sockets of the file system.`,
      { hint: 'Set --host or server.http.host to an address.' },
    )
  const fixed = acceptedTokens(options)
  const slots = createStreamSlots(settings.maxStreams)
  const pulse = createPulse(clock)
  const onOpen = (client: string, principal: string): void => log.debug('a client connected', { client, principal })
  const modern = await createModernHttp({ ...options.modern, factory, slots, log, onOpen })
  const sessions = createSessions({
    factory,
    clock,
    pulse,
    soon: createPulse(clock, SOON_MS),
    events: createEventLog({ clock, maxBytes: settings.maxReplayBytes, maxEvents: settings.maxReplayEvents }),
    slots,
    maxSessions: settings.maxSessions,
    idleMs: settings.sessionIdleMs,
    handover: options.handover,
    processes: options.processes,
    onOpen,
  })
  const sse = createSse({ factory, pulse, slots, messagesPath: '/messages', onOpen })
  const { metrics } = options
  const unauthorized = metrics?.counter('pegboard.http.unauthorized', 'Requests without a valid token.', [])
  const countUnauthorized = ({ socket }: IncomingMessage): void => {
    unauthorized?.add([])
    log.debug('a request without a valid token was refused', { from: socket.remoteAddress ?? '' })
  }
  const running = new Set<ServerResponse>()
  const connections = createOpenConnections(clock, (res) => running.has(res))
  // The port may be 0 until the server listens.
  const local = (): string => `http://${urlHost(settings.host)}:${port}`
  const origin = (): string => settings.publicUrl ?? local()
  const resource = (): string => `${origin()}/mcp`
  const access = fixed && settings.oauth && createAccessTokens({ settings: settings.oauth, resource, clock, log })
  const context: RouterContext = {
    originCheck: createOriginCheck(settings),
    authenticate: fixed && createAuthenticator({ fixed, tokens: options.tokens, access, origin }),
    connections,
    maxBodyBytes: settings.maxBodyBytes,
    page: options.page?.(local),
    resource: () => access?.metadata(),
    profile,
    hasProfile: options.hasProfile ?? ((name) => name === profile),
    draining: false,
    closing: false,
    running,
    health: () => options.health(),
    ready: async () => options.ready?.(),
    metrics: metrics && (async () => toPrometheusText(await metrics.collect())),
    within: options.within,
  }
  const gauge = (name: string, help: string, points: () => readonly MetricPoint[]): void =>
    metrics?.observe({ name, help, type: 'gauge', unit: '' }, points)
  gauge('pegboard.sessions', 'Open sessions.', () => [
    { labels: { transport: 'streamable' }, value: sessions.size },
    { labels: { transport: 'sse' }, value: sse.size },
  ])
  gauge('pegboard.streams', 'Open event streams.', () => [{ labels: {}, value: slots.size }])
  gauge('pegboard.http.requests.running', 'Requests in progress.', () => [{ labels: {}, value: running.size }])
  const handlers = await createHandlers({ sessions, sse, modern, context })
  const { headersTimeoutMs, requestTimeoutMs, maxHeaderBytes } = settings
  const server = createServer({
    connectionsCheckingInterval: Math.min(CHECK_MS, Math.ceil(headersTimeoutMs / 3)),
    maxHeaderSize: maxHeaderBytes,
  })
  server.headersTimeout = headersTimeoutMs
  server.requestTimeout = requestTimeoutMs
  server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS
  server.maxConnections = settings.maxConnections
  limitWaiting(server, Math.ceil(settings.maxConnections / 2))
  // Node drops headers beyond a maximum count, such as an Origin or a second token. Their size is limited instead.
  server.maxHeadersCount = 0
  const serve = (req: IncomingMessage, res: ServerResponse): void => {
    handle(context, handlers, req, res).catch((error: unknown) => {
      if (res.destroyed) return
      const isRefused = error instanceof HttpError
      if (!isRefused) log.error('a request failed', { error })
      else if (error.status === 401) countUnauthorized(req)
      if (res.headersSent) res.destroy()
      else sendHttpError(res, isRefused ? error : new HttpError(500, 'Internal server error', { code: -32603 }))
    })
  }
  server.on('request', serve)
  // Sends "100 Continue" only after the checks that need no body.
  server.on('checkContinue', serve)
  const { port } = await listen(server, settings)
  server.on('error', (error) => log.error('the HTTP server failed', { error }))
  const stopTokenChecks = options.tokens?.onGone((token) => {
    void sessions.revoke(token)
    connections.end(token)
  })

  const shutDown = async (graceMs: number): Promise<void> => {
    context.draining = true
    context.closing = true
    stopTokenChecks?.()
    const stopped = new Promise<void>((resolve) => server.close(() => resolve()))
    await waitUntilIdle(context.running, graceMs, clock)
    await Promise.all([sessions.close(), sse.close(), modern.close()])
    // Lets the last events leave before the sockets close.
    await new Promise((resolve) => setImmediate(resolve))
    server.closeAllConnections()
    await stopped
  }
  let closed: Promise<void> | undefined

  return {
    url: local(),
    port,
    sessions: () => ({ streamable: sessions.size, sse: sse.size }),
    drain() {
      context.draining = true
    },
    close(graceMs = 0) {
      closed ??= shutDown(graceMs)
      return closed
    },
  }
}

function acceptedTokens({ settings, token, tokens }: HttpOptions): readonly BearerToken[] | undefined {
  if (settings.auth === 'none') {
    if (isLoopback(settings.host)) return undefined
    throw new PegboardError(
      'E_CONFIG_AUTH',
      `server.http.auth is "none", but other machines can reach server.http.host "${settings.host}".`,
    )
  }
  const named = settings.tokens.map(({ token: text, ...whose }) => createBearerToken(text, whose))
  if (token || named.length > 0 || settings.oauth || (tokens && tokens.valid().length > 0))
    return [...(token ? [createBearerToken(token)] : []), ...named]
  throw new PegboardError('E_CONFIG_AUTH', 'server.http.auth is "token", but no token is set.', {
    hint: 'Set server.http.token or server.http.oauth, run pegboard token create, or set server.http.auth to "none" on a loopback address.',
  })
}

async function listen(
  server: NodeServer,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<AddressInfo> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host, port }, resolve)
    })
  } catch (error) {
    const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
    throw new PegboardError(
      'E_ADDRESS_UNAVAILABLE',
      taken ? `Port ${port} on ${host} is in use.` : `Cannot listen on ${host}:${port}: ${messageOf(error)}`,
      {
        hint: taken
          ? 'Stop the program that uses it, or choose another with --port or server.http.port.'
          : 'Choose another with --host or server.http.host.',
        cause: error,
      },
    )
  }
  return server.address() as AddressInfo
}

function waitUntilIdle(running: ReadonlySet<ServerResponse>, graceMs: number, clock: Clock): Promise<void> {
  if (running.size === 0 || graceMs <= 0) return Promise.resolve()
  const idle = new Promise<void>((resolve) => {
    for (const res of running) res.once('close', () => running.size === 0 && resolve())
  })
  return waitAtMost(graceMs, idle, undefined, clock)
}
