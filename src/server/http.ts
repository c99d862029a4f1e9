import { createServer, type IncomingMessage, type Server as NodeServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Observer } from '../core/observer.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { prometheusText } from '../observe/prometheus.ts'
import type { Registry } from '../observe/registry.ts'
import { createAdmission } from './admission.ts'
import { type BearerToken, bearerToken } from './auth.ts'
import { createDoor, isLoopback, refusal, refuse, urlHost } from './door.ts'
import { createPulse, createSlots } from './events.ts'
import type { ServerFactory } from './factory.ts'
import { createLive } from './live.ts'
import { createModern, type ModernOptions } from './modern.ts'
import { createAccessTokens } from './oauth.ts'
import type { HttpSettings } from './options.ts'
import type { Roaming } from './roaming.ts'
import { createHandlers, type Gate, handle } from './router.ts'
import { createSessions } from './session.ts'
import { createSse } from './sse.ts'
import type { Tokens } from './tokens.ts'
import { limitWaiting } from './waiting.ts'

export interface HttpOptions {
  readonly settings: HttpSettings
  /** Required unless `settings.auth` is `none`. */
  readonly token: string | undefined
  /** Those that were made; what is open ends with the one that let it in. */
  readonly tokens?: Tokens | undefined
  /** Of who comes without one in the address; default `default`. */
  readonly profile?: string
  /** Default none but that. */
  readonly hasProfile?: (name: string) => boolean
  readonly factory: ServerFactory
  readonly enter?: ModernOptions['enter']
  readonly follow?: ModernOptions['follow']
  readonly followTasks?: ModernOptions['followTasks']
  readonly listening?: ModernOptions['listening']
  /** Where 2025-era sessions are shared with other processes. */
  readonly roaming?: Roaming | undefined
  readonly log: Log
  readonly clock: Clock
  /** The body of `GET /health`, which anybody may read. */
  health(): object
  /** Why `GET /ready` says no, in words for anybody; default it says yes. */
  ready?(): Promise<string | undefined>
  /** What is told at `GET /metrics`; absent: there is no such address. */
  readonly metrics?: Registry | undefined
  /** Where requests belong in a trace; absent: nobody asks. */
  readonly within?: Observer['within'] | undefined
  /** A request came without a valid token. */
  onUnauthorized?(): void
}

export interface HttpServer {
  /** `http://127.0.0.1:PORT`, without a path. */
  readonly url: string
  readonly port: number
  /** How many sessions live now. */
  sessions(): { readonly streamable: number; readonly sse: number }
  /** Refuses new requests, gives those that run `graceMs` (default 0) to finish, then ends every stream and session. */
  close(graceMs?: number): Promise<void>
}

/** How often connections are looked at, at least. */
const CHECK_MS = 5_000
/** Over the pools of common clients, so that it is the client who closes an idle connection. */
const KEEP_ALIVE_TIMEOUT_MS = 60_000

/**
 * Serves MCP over HTTP: `/mcp` for both revisions of Streamable HTTP, `/sse` and `/messages` for the transport before it.
 * @throws PegboardError E_CONFIG_AUTH without a token where one is needed, E_ADDRESS_UNAVAILABLE when the address cannot be had
 */
export async function serveHttp(options: HttpOptions): Promise<HttpServer> {
  const { settings, clock, factory, log, profile = DEFAULT_PROFILE } = options
  if (/[/\\]/.test(settings.host))
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `"${settings.host}" is a path, and sockets of the file system are not listened on.`,
      { hint: 'Name an address with --host or server.http.host.' },
    )
  const fixed = acceptedTokens(options)
  const slots = createSlots(settings.maxStreams)
  const pulse = createPulse(clock)
  const modern = await createModern({
    factory,
    enter: options.enter,
    follow: options.follow,
    followTasks: options.followTasks,
    listening: options.listening,
    slots,
    log,
  })
  const sessions = createSessions({
    factory,
    clock,
    pulse,
    slots,
    maxSessions: settings.maxSessions,
    idleMs: settings.sessionIdleMs,
    roaming: options.roaming,
    onOpen: (client, principal) => log.debug('a client connected', { client, principal }),
  })
  const sse = createSse({ factory, pulse, slots, messagesPath: '/messages' })
  const { metrics } = options
  const refused = metrics?.counter('pegboard.http.unauthorized', 'Requests without a valid token.', [])
  const running = new Set<ServerResponse>()
  const live = createLive(clock, (res) => running.has(res))
  // The port may be known only when it listens.
  const origin = (): string => settings.publicUrl ?? `http://${urlHost(settings.host)}:${port}`
  const access =
    fixed && settings.oauth
      ? createAccessTokens({ settings: settings.oauth, resource: () => `${origin()}/mcp`, clock, log })
      : undefined
  const gate: Gate = {
    door: createDoor(settings),
    admission: fixed && createAdmission({ fixed, kept: options.tokens, access, origin }),
    live,
    maxBodyBytes: settings.maxBodyBytes,
    resource: () => access?.metadata(),
    profile,
    hasProfile: options.hasProfile ?? ((name) => name === profile),
    closing: false,
    running,
    health: () => options.health(),
    ready: async () => options.ready?.(),
    metrics: metrics && (async () => prometheusText(await metrics.collect())),
    within: options.within,
    onUnauthorized(from) {
      refused?.add([])
      log.debug('a request without a valid token was refused', { from })
      options.onUnauthorized?.()
    },
  }
  metrics?.observe({ name: 'pegboard.sessions', help: 'Open sessions.', type: 'gauge', unit: '' }, () => [
    { labels: { transport: 'streamable' }, value: sessions.size },
    { labels: { transport: 'sse' }, value: sse.size },
  ])
  metrics?.observe({ name: 'pegboard.streams', help: 'Open streams of events.', type: 'gauge', unit: '' }, () => [
    { labels: {}, value: slots.size },
  ])
  metrics?.observe(
    { name: 'pegboard.http.requests.running', help: 'Requests that wait for their answer.', type: 'gauge', unit: '' },
    () => [{ labels: {}, value: gate.running.size }],
  )
  const handlers = await createHandlers({ sessions, sse, modern, gate })
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
  // Node leaves out what comes after so many: an Origin, or a second token, would not be seen. Their size is bounded.
  server.maxHeadersCount = 0
  const serve = (req: IncomingMessage, res: ServerResponse): void => {
    handle(gate, handlers, req, res).catch((error: unknown) => {
      if (res.destroyed) return
      log.error('a request failed', { error })
      if (res.headersSent) res.destroy()
      else refuse(res, refusal(500, 'Internal server error', { code: -32603 }))
    })
  }
  server.on('request', serve)
  // We say "continue" ourselves, after the checks that need no body.
  server.on('checkContinue', serve)
  const { port } = await listen(server, settings)
  server.on('error', (error) => log.error('the HTTP server failed', { error }))
  const unfollow = options.tokens?.follow((token) => {
    void sessions.revoke(token)
    live.end(token)
  })

  const shut = async (graceMs: number): Promise<void> => {
    gate.closing = true
    unfollow?.()
    const stopped = new Promise<void>((resolve) => server.close(() => resolve()))
    await idle(gate.running, graceMs, clock)
    await Promise.all([sessions.close(), sse.close(), modern.close()])
    // The last events leave in this turn of the loop.
    await new Promise((resolve) => setImmediate(resolve))
    server.closeAllConnections()
    await stopped
  }
  let closed: Promise<void> | undefined

  return {
    url: `http://${urlHost(settings.host)}:${port}`,
    port,
    sessions: () => ({ streamable: sessions.size, sse: sse.size }),
    close(graceMs = 0) {
      closed ??= shut(graceMs)
      return closed
    },
  }
}

function acceptedTokens({ settings, token, tokens }: HttpOptions): readonly BearerToken[] | undefined {
  if (settings.auth === 'none') {
    if (isLoopback(settings.host)) return undefined
    throw new PegboardError(
      'E_CONFIG_AUTH',
      `server.http.auth is "none" and server.http.host is "${settings.host}", which others can reach.`,
    )
  }
  const named = settings.tokens.map(({ token: text, ...whose }) => bearerToken(text, whose))
  if (token || named.length > 0 || settings.oauth || (tokens && tokens.valid().length > 0))
    return [...(token ? [bearerToken(token)] : []), ...named]
  throw new PegboardError('E_CONFIG_AUTH', 'server.http.auth is "token" and there is no token.', {
    hint: 'Set server.http.token or server.http.oauth, make one with pegboard token create, or set server.http.auth: "none" on a loopback address.',
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

function idle(running: ReadonlySet<ServerResponse>, graceMs: number, clock: Clock): Promise<void> {
  if (running.size === 0 || graceMs <= 0) return Promise.resolve()
  return new Promise((resolve) => {
    const cancel = clock.after(graceMs, resolve)
    for (const res of running)
      res.once('close', () => {
        if (running.size > 0) return
        cancel()
        resolve()
      })
  })
}
