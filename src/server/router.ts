import type { IncomingMessage, ServerResponse } from 'node:http'
import { createByteBudget } from '../core/byte-budget.ts'
import type { Observer } from '../core/observer-types.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { MODERN_REVISION } from '../core/protocol-revisions.ts'
import { CONTENT_TYPE } from '../observe/prometheus.ts'
import type { Authenticator } from './authenticate.ts'
import type { Bearer } from './bearer-tokens.ts'
import { HttpError, sendJson } from './http-error.ts'
import type { Sse } from './http-sse-2024/legacy-sse.ts'
import { type Identity, localIdentity } from './identity.ts'
import { claimsRevision } from './jsonrpc-message.ts'
import { isOfRequest } from './legacy-2025/event-log.ts'
import type { Sessions } from './legacy-2025/http-sessions.ts'
import type { ModernHttp } from './modern-2026/modern-http.ts'
import type { OpenConnections } from './open-connections.ts'
import type { OriginCheck } from './origin-check.ts'
import { type Messages, parseMessages, readBody } from './request-body.ts'

/**
 * All routes. Those marked `open` need no token. The others can end in the name of a profile, such as `/mcp/team`, except
 * `/metrics`, which exists only if the operator enables it.
 */
export const routes = [
  { method: 'GET', path: '/health', name: 'health', open: true },
  { method: 'GET', path: '/ready', name: 'ready', open: true },
  { method: 'GET', path: '/.well-known/oauth-protected-resource', name: 'resource', open: true },
  { method: 'GET', path: '/.well-known/oauth-protected-resource/mcp', name: 'resource', open: true },
  { method: 'GET', path: '/metrics', name: 'metrics', open: false },
  { method: 'POST', path: '/mcp', name: 'mcpPost', open: false },
  { method: 'GET', path: '/mcp', name: 'mcpListen', open: false },
  { method: 'DELETE', path: '/mcp', name: 'mcpEnd', open: false },
  { method: 'GET', path: '/sse', name: 'sseOpen', open: false },
  { method: 'POST', path: '/messages', name: 'ssePost', open: false },
] as const

type RouteName = (typeof routes)[number]['name']
export interface RoutedRequest {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly identity: Identity
  /** The rest of the path: `/team`, or empty. */
  readonly rest: string
}
export type Handlers = Readonly<Record<RouteName, (request: RoutedRequest) => void | Promise<void>>>

/** The page of the operator. It makes its own checks, after that of the origin. */
export interface Page {
  owns(path: string): boolean
  /** @param isOperator whether the Authorization header holds `server.http.token` */
  handle(req: IncomingMessage, res: ServerResponse, isOperator: () => Promise<boolean>): Promise<void>
}

export interface RouterContext {
  readonly originCheck: OriginCheck
  /** Absent: no token is needed. */
  readonly authenticate: Authenticator | undefined
  readonly connections: OpenConnections
  readonly maxBodyBytes: number
  /** Absent: `/ui` and `/` do not exist. */
  readonly page?: Page | undefined
  /** OAuth metadata of this server; undefined without an issuer. */
  resource(): object | undefined
  /** Profile of requests whose path names none. */
  readonly profile: string
  hasProfile(name: string): boolean
  health(): object
  /** The reason why this process cannot serve requests now; undefined if it can. */
  ready(): Promise<string | undefined>
  /** The body of `GET /metrics`; absent: the route does not exist. */
  readonly metrics?: (() => Promise<string>) | undefined
  /** Runs a request as part of the trace that its headers name; absent: tracing is off. */
  readonly within?: Observer['runInContext'] | undefined
  /** Responses that are not finished, without event streams. */
  readonly running: Set<ServerResponse>
  /** True while the calls of a stopping process end: a load balancer then sends requests to other processes. */
  draining: boolean
  closing: boolean
}

/** Checks origin, path, token, profile and method, in this order. The body is read last. @throws HttpError */
export async function handle(
  context: RouterContext,
  handlers: Handlers,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  context.originCheck.check(req)
  const path = (req.url ?? '').split('?', 1)[0] ?? ''
  if (context.page?.owns(path)) return await context.page.handle(req, res, () => holdsOperatorToken(context, req))
  context.originCheck.share(req, res)
  if (context.page && path === '/' && req.method === 'GET') return greet(res)

  const { matching, profile } = routesAt(path)
  const metrics = matching[0]?.name === 'metrics'
  if (matching.length === 0 || (metrics && profile !== undefined)) throw createNotFound()
  if (metrics && !context.metrics) throw await createMetricsError(context, req)
  const methods = matching.map(({ method }) => method)
  if (req.method === 'OPTIONS') return context.originCheck.preflight(req, res, methods)

  const route = matching.find(({ method }) => method === req.method)
  const found = route?.open ? undefined : context.authenticate?.(req.headers.authorization)
  const bearer = found instanceof Promise ? await found : found
  const identity = route?.open ? localIdentity() : identityFor(context, bearer, profile)
  if (!route) throw createNotAllowed(methods.join(', '))
  if (context.closing && !route.open)
    throw new HttpError(503, 'E_SHUTTING_DOWN: the server is stopping. Try again when it is back.', {
      headers: { connection: 'close', 'retry-after': '5' },
    })
  if (bearer) context.connections.hold(bearer, res)
  const request = { req, res, identity, rest: profile === undefined ? '' : `/${profile}` }
  const answer = () => handlers[route.name](request)
  const { traceparent, tracestate } = req.headers
  await (context.within && traceparent !== undefined ? context.within({ traceparent, tracestate }, answer) : answer())
}

const createNotFound = (): HttpError => new HttpError(404, 'Not found')
const createNotAllowed = (allow: string): HttpError => new HttpError(405, 'Method not allowed', { headers: { allow } })

/** For a person who opens the address in a browser. */
function greet(res: ServerResponse): void {
  res.setHeader('content-type', 'text/plain; charset=utf-8')
  res.setHeader('x-content-type-options', 'nosniff')
  res.end('This is Pegboard. MCP clients connect to /mcp. To open its page, run: pegboard ui\n')
}

/** Without a required token nobody is known to be the operator. */
async function holdsOperatorToken(context: RouterContext, req: IncomingMessage): Promise<boolean> {
  if (!context.authenticate || req.headers.authorization === undefined) return false
  const identity = await identify(context, req)
  return identity !== undefined && isOperator(identity)
}

/** Only an operator learns that the route could exist. */
async function createMetricsError(context: RouterContext, req: IncomingMessage): Promise<HttpError> {
  const identity = await identify(context, req)
  if (!identity || !mayReadMetrics(identity)) return createNotFound()
  return new HttpError(404, 'Not found: metrics are off; telemetry.prometheus: true switches them on.')
}

/** The identity of a request whose path names no profile; undefined if its token is refused. */
async function identify(context: RouterContext, req: IncomingMessage): Promise<Identity | undefined> {
  try {
    return identityFor(context, await context.authenticate?.(req.headers.authorization), undefined)
  } catch (error) {
    if (error instanceof HttpError) return undefined
    throw error
  }
}

function routesAt(path: string): { readonly matching: readonly (typeof routes)[number][]; readonly profile?: string } {
  const exact = routes.filter((route) => route.path === path)
  if (exact.length > 0) return { matching: exact }
  const [, base, profile] = /^(\/[a-z]+)\/([\w.-]+)$/.exec(path) ?? []
  const matching = routes.filter((route) => !route.open && route.path === base)
  return matching.length === 0 || profile === undefined ? { matching: [] } : { matching, profile }
}

/** The identity of a request with a valid token, or without one. @throws HttpError if the token does not fit the profile */
function identityFor(
  context: RouterContext,
  token: Bearer | undefined,
  requestedProfile: string | undefined,
): Identity {
  if (token?.profile !== undefined && requestedProfile !== undefined && requestedProfile !== token.profile)
    throw new HttpError(403, 'Forbidden: this token is for another profile')
  if (requestedProfile !== undefined && !context.hasProfile(requestedProfile)) throw createNotFound()
  const profile = token?.profile ?? requestedProfile ?? context.profile
  if (!token) return localIdentity(profile)
  const { principal, roles, grants, credential } = token
  const isBound = token.profile !== undefined
  return {
    principal,
    profile,
    roles,
    named: true,
    ...(isBound && { bound: true }),
    ...omitUndefined({ grants, credential }),
  }
}

interface Parts {
  readonly sessions: Sessions
  readonly sse: Sse
  readonly modern: ModernHttp
  readonly context: RouterContext
}

export async function createHandlers({ sessions, sse, modern, context }: Parts): Promise<Handlers> {
  const { classifyInboundRequest, SUPPORTED_PROTOCOL_VERSIONS } = await import('@modelcontextprotocol/server')
  const supportedVersions = [...new Set([...SUPPORTED_PROTOCOL_VERSIONS, MODERN_REVISION])]

  const receiving = createByteBudget(BODIES_AT_ONCE * context.maxBodyBytes)

  /** The messages of a POST. @throws HttpError */
  async function receive(req: IncomingMessage, res: ServerResponse, { principal }: Identity): Promise<Messages> {
    let heldBytes = 0
    const hold = (bytes: number): boolean => {
      if (!receiving.hold(principal, bytes)) return false
      heldBytes += bytes
      return true
    }
    try {
      return parseMessages(await readBody(req, res, context.maxBodyBytes, hold))
    } finally {
      receiving.free(principal, heldBytes)
    }
  }

  /** Whether this is a plain message in a 2025 session. The check of the SDK costs as much as the rest of the request. */
  const isPlainSessionMessage = (req: IncomingMessage, { messages: [message], batch }: Messages): boolean => {
    const version = header(req, 'mcp-protocol-version')
    return (
      !batch &&
      message !== undefined &&
      req.headers['mcp-session-id'] !== undefined &&
      version !== undefined &&
      version !== MODERN_REVISION &&
      supportedVersions.includes(version) &&
      req.headers['mcp-method'] === undefined &&
      req.headers['mcp-name'] === undefined &&
      message.method !== 'subscriptions/listen' &&
      // A message that names a revision may disagree with the header, which the SDK checks.
      !claimsRevision(message.params) &&
      accepts(req, 'application/json') &&
      accepts(req, 'text/event-stream')
    )
  }

  const trackRunning = (res: ServerResponse): void => {
    context.running.add(res)
    res.once('close', () => context.running.delete(res))
  }

  /** 2026 has no sessions, so GET and DELETE are refused. */
  const isModern = (req: IncomingMessage): boolean => req.headers['mcp-protocol-version'] === MODERN_REVISION

  return {
    health: ({ res }) => sendJson(res, 200, context.health()),
    async ready({ res }) {
      const reason = context.draining ? 'the server is stopping' : await context.ready()
      if (reason === undefined) return sendJson(res, 200, { status: 'ready' })
      res.setHeader('retry-after', '2')
      sendJson(res, 503, { status: 'not ready', reason })
    },
    resource({ res }) {
      const resource = context.resource()
      if (!resource) throw createNotFound()
      sendJson(res, 200, resource)
    },
    async metrics({ res, identity }) {
      // Metrics name the tools and servers of all profiles.
      if (!mayReadMetrics(identity))
        throw new HttpError(403, `Forbidden: this is for the operator, and tokens with the role "${METRICS_ROLE}"`)
      const text = await context.metrics?.()
      res.setHeader('content-type', CONTENT_TYPE)
      res.end(text)
    },
    async mcpPost({ req, res, identity }) {
      const body = await receive(req, res, identity)
      const [message] = body.messages
      if (!message) return
      const version = header(req, 'mcp-protocol-version')
      if (version !== undefined && !supportedVersions.includes(version) && !claimsRevision(message.params))
        throw new HttpError(400, `Unsupported protocol version: ${version.slice(0, 40)}`, {
          code: -32022,
          id: message.id ?? null,
          data: { supported: supportedVersions, requested: version.slice(0, 40) },
        })
      if (isPlainSessionMessage(req, body)) {
        trackRunning(res)
        return await sessions.post(req, res, identity, body)
      }
      const era = classifyInboundRequest({
        httpMethod: 'POST',
        body: body.batch ? body.messages : message,
        ...omitUndefined({
          protocolVersionHeader: version,
          mcpMethodHeader: header(req, 'mcp-method'),
          mcpNameHeader: header(req, 'mcp-name'),
        }),
      })
      if (message.method !== 'subscriptions/listen') trackRunning(res)
      if (era.kind !== 'legacy' && !body.batch) return modern.post(req, res, identity, message)
      if (era.kind === 'reject') throw new HttpError(era.httpStatus, era.message, { code: era.code, data: era.data })
      if (!accepts(req, 'application/json') || !accepts(req, 'text/event-stream'))
        throw new HttpError(406, 'Not acceptable: Accept must name application/json and text/event-stream')
      await sessions.post(req, res, identity, body)
    },
    mcpListen({ req, res, identity }) {
      if (isModern(req)) throw createNotAllowed('POST')
      if (!accepts(req, 'text/event-stream'))
        throw new HttpError(406, 'Not acceptable: Accept must name text/event-stream')
      if (isOfRequest(req.headers['last-event-id'])) trackRunning(res)
      return sessions.listen(req, res, identity)
    },
    async mcpEnd({ req, res, identity }) {
      if (isModern(req)) throw createNotAllowed('POST')
      await sessions.end(req, res, identity)
    },
    sseOpen: ({ res, identity, rest }) => sse.open(res, identity, rest),
    async ssePost({ req, res, identity }) {
      sse.post(req, res, identity, await receive(req, res, identity))
    },
  }
}

/** Largest bodies that one principal can send at the same time. */
const BODIES_AT_ONCE = 32
/** Whether the request has `server.http.token`, which no setting limits, or needs no token. */
const isOperator = ({ principal, bound, grants, credential }: Identity): boolean =>
  principal === 'local' && !bound && grants === undefined && credential === undefined
const METRICS_ROLE = 'metrics'
const mayReadMetrics = (identity: Identity): boolean => isOperator(identity) || identity.roles.includes(METRICS_ROLE)

const header = (req: IncomingMessage, name: string): string | undefined => req.headers[name] as string | undefined
const accepts = (req: IncomingMessage, type: string): boolean => req.headers.accept?.includes(type) === true
