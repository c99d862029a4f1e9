import { createServer, type IncomingMessage, type Server as NodeServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { type BearerToken, bearerToken } from './auth.ts'
import { createDoor, isLoopback, refusal, refuse, urlHost } from './door.ts'
import { createPulse, createSlots } from './events.ts'
import type { ServerFactory } from './factory.ts'
import { createModern, type ModernOptions } from './modern.ts'
import type { HttpSettings } from './options.ts'
import type { Roaming } from './roaming.ts'
import { createHandlers, type Gate, handle } from './router.ts'
import { createSessions } from './session.ts'
import { createSse } from './sse.ts'

export interface HttpOptions {
  readonly settings: HttpSettings
  /** Required unless `settings.auth` is `none`. */
  readonly token: string | undefined
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
  /** A request came without a valid token. */
  onUnauthorized?(): void
  /** How patient we are with a request that arrives slowly; tests are in a hurry. */
  readonly patience?: Patience
}

export interface Patience {
  /** For the headers; default 15 s. */
  readonly headersMs: number
  /** For the whole request; default 30 s. Answers and streams may take as long as they like. */
  readonly requestMs: number
  /** How often connections are looked at; default 5 s. */
  readonly checkMs: number
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

const PATIENCE: Patience = { headersMs: 15_000, requestMs: 30_000, checkMs: 5_000 }
/** Over the pools of common clients, so that it is the client who closes an idle connection. */
const KEEP_ALIVE_TIMEOUT_MS = 60_000
const MAX_CONNECTIONS = 1_024
const STREAMS_PER_PRINCIPAL = 16

/**
 * Serves MCP over HTTP: `/mcp` for both revisions of Streamable HTTP, `/sse` and `/messages` for the transport before it.
 * @throws PegboardError E_CONFIG_AUTH without a token where one is needed, E_CONFIG_INVALID when the address cannot be had
 */
export async function serveHttp(options: HttpOptions): Promise<HttpServer> {
  const { settings, clock, factory, log, profile = DEFAULT_PROFILE } = options
  const tokens = acceptedTokens(options)
  const slots = createSlots(STREAMS_PER_PRINCIPAL)
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
  })
  const sse = createSse({ factory, pulse, slots, messagesPath: '/messages' })
  const gate: Gate = {
    door: createDoor(settings),
    tokens,
    profile,
    hasProfile: options.hasProfile ?? ((name) => name === profile),
    closing: false,
    running: new Set(),
    health: () => options.health(),
    ready: async () => options.ready?.(),
    onUnauthorized: () => options.onUnauthorized?.(),
  }
  const handlers = await createHandlers({ sessions, sse, modern, gate })

  const { headersMs, requestMs, checkMs } = options.patience ?? PATIENCE
  const server = createServer({ connectionsCheckingInterval: checkMs })
  server.headersTimeout = headersMs
  server.requestTimeout = requestMs
  server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS
  server.maxConnections = MAX_CONNECTIONS
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

  const shut = async (graceMs: number): Promise<void> => {
    gate.closing = true
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

function acceptedTokens({ settings, token }: HttpOptions): readonly BearerToken[] | undefined {
  if (settings.auth === 'none') {
    if (isLoopback(settings.host)) return undefined
    throw new PegboardError(
      'E_CONFIG_AUTH',
      `server.http.auth is "none" and server.http.host is "${settings.host}", which others can reach.`,
    )
  }
  const named = settings.tokens.map(({ token: text, ...whose }) => bearerToken(text, whose))
  if (token || named.length > 0) return [...(token ? [bearerToken(token)] : []), ...named]
  throw new PegboardError('E_CONFIG_AUTH', 'server.http.auth is "token" and there is no token.', {
    hint: 'Set server.http.token, or server.http.auth: "none" on a loopback address.',
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
      'E_CONFIG_INVALID',
      taken ? `Port ${port} on ${host} is in use.` : `Cannot listen on ${host}:${port}: ${messageOf(error)}`,
      {
        hint: 'Choose another with --port or server.http.port.',
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
