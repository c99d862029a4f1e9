import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Observer } from '../core/observer.ts'
import { CONTENT_TYPE } from '../observe/prometheus.ts'
import type { Admission } from './admission.ts'
import type { Bearer } from './auth.ts'
import { checkBody, type Messages, readBody, readMessages } from './body.ts'
import { type Entrant, localEntrant } from './caller.ts'
import { type Door, type Refusal, refusal, refuse } from './door.ts'
import type { Live } from './live.ts'
import { claimsRevision } from './message.ts'
import type { Modern } from './modern.ts'
import type { Sessions } from './session.ts'
import type { Sse } from './sse.ts'

/**
 * Every route there is. All need a token but those marked `open`; behind all others the name of a profile may stand, but for
 * `/metrics`, which is there only where the operator wants it.
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
export interface Request {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly entrant: Entrant
  /** What stands behind the path of the route: `/team`, or nothing. */
  readonly rest: string
}
export type Handlers = Readonly<Record<RouteName, (request: Request) => void | Promise<void>>>

/** What every request passes before it reaches a handler. */
export interface Gate {
  readonly door: Door
  /** Absent: everybody is let in. */
  readonly admission: Admission | undefined
  readonly live: Live
  readonly maxBodyBytes: number
  /** How to log in; absent: nowhere. */
  resource(): object | undefined
  /** Of who comes without one in the address. */
  readonly profile: string
  hasProfile(name: string): boolean
  health(): object
  /** What keeps this process from doing its work now; `undefined` for nothing. */
  ready(): Promise<string | undefined>
  /** What `GET /metrics` tells; absent: there is no such address. */
  readonly metrics?: (() => Promise<string>) | undefined
  /** Where a request belongs in a trace, by its headers; absent: nobody asks. */
  readonly within?: Observer['within'] | undefined
  onUnauthorized(from: string): void
  /** Calls that wait for their answer. */
  readonly running: Set<ServerResponse>
  closing: boolean
}

/** The order matters: who may knock, where to, who is it, may it be done so, and only then a look at the body. */
export async function handle(gate: Gate, handlers: Handlers, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const stranger = gate.door.check(req)
  if (stranger) return refuse(res, stranger)
  gate.door.share(req, res)

  const { here, profile } = routesAt((req.url ?? '').split('?', 1)[0] ?? '')
  const metrics = here[0]?.name === 'metrics'
  if (here.length === 0 || (metrics && profile !== undefined)) return refuse(res, nothingHere)
  if (metrics && !gate.metrics) return refuse(res, await withoutMetrics(gate, req))
  const methods = here.map(({ method }) => method)
  if (req.method === 'OPTIONS') return gate.door.preflight(req, res, methods)

  const route = here.find(({ method }) => method === req.method)
  const checked = route?.open ? undefined : gate.admission?.check(req.headers.authorization)
  const bearer = checked instanceof Promise ? await checked : checked
  if (bearer && 'status' in bearer) {
    if (bearer.status === 401) gate.onUnauthorized(req.socket.remoteAddress ?? '')
    return refuse(res, bearer)
  }
  const entrant = route?.open ? localEntrant() : entrantFor(gate, bearer, profile)
  if ('status' in entrant) return refuse(res, entrant)
  if (!route) return refuse(res, refusal(405, 'Method not allowed', { headers: { allow: methods.join(', ') } }))
  if (gate.closing && !route.open)
    return refuse(
      res,
      refusal(503, 'E_SHUTTING_DOWN: the server is stopping. Try again when it is back.', {
        headers: { connection: 'close', 'retry-after': '5' },
      }),
    )
  if (bearer) gate.live.hold(bearer, res)
  const request = { req, res, entrant, rest: profile === undefined ? '' : `/${profile}` }
  const answer = () => handlers[route.name](request)
  const { traceparent, tracestate } = req.headers
  await (gate.within && traceparent !== undefined ? gate.within({ traceparent, tracestate }, answer) : answer())
}

const nothingHere = refusal(404, 'Not found')

/** A stranger learns nothing of it, not even that there could be such an address. */
async function withoutMetrics(gate: Gate, req: IncomingMessage): Promise<Refusal> {
  const bearer = await gate.admission?.check(req.headers.authorization)
  if (bearer && 'status' in bearer) return nothingHere
  const entrant = entrantFor(gate, bearer, undefined)
  if ('status' in entrant || !mayReadMetrics(entrant)) return nothingHere
  return refusal(404, 'Not found: metrics are off; telemetry.prometheus: true switches them on.')
}

/** The routes of a path, and the profile that stands behind theirs. */
function routesAt(path: string): { readonly here: readonly (typeof routes)[number][]; readonly profile?: string } {
  const exact = routes.filter((route) => route.path === path)
  if (exact.length > 0) return { here: exact }
  const [, base, profile] = /^(\/[a-z]+)\/([\w.-]+)$/.exec(path) ?? []
  const here = routes.filter((route) => !route.open && route.path === base)
  return here.length === 0 || profile === undefined ? { here: [] } : { here, profile }
}

/** Who a request comes from, once its token is known to be ours. */
function entrantFor(gate: Gate, token: Bearer | undefined, asked: string | undefined): Entrant | Refusal {
  if (token?.profile !== undefined && asked !== undefined && asked !== token.profile)
    return refusal(403, 'Forbidden: this token is for another profile')
  if (asked !== undefined && !gate.hasProfile(asked)) return nothingHere
  const profile = token?.profile ?? asked ?? gate.profile
  if (!token) return localEntrant(profile)
  const { principal, roles, grants, credential } = token
  return {
    principal,
    profile,
    roles,
    named: true,
    ...(token.profile === undefined ? {} : { bound: true }),
    ...(grants ? { grants } : {}),
    ...(credential ? { credential } : {}),
  }
}

interface Parts {
  readonly sessions: Sessions
  readonly sse: Sse
  readonly modern: Modern
  readonly gate: Gate
}

export async function createHandlers({ sessions, sse, modern, gate }: Parts): Promise<Handlers> {
  const { classifyInboundRequest, SUPPORTED_PROTOCOL_VERSIONS } = await import('@modelcontextprotocol/server')
  const known = [...new Set([...SUPPORTED_PROTOCOL_VERSIONS, MODERN])]

  /** The messages of a POST, or undefined when it was answered already. */
  async function receive(req: IncomingMessage, res: ServerResponse): Promise<Messages | undefined> {
    const unfit = checkBody(req, gate.maxBodyBytes)
    if (unfit) return void refuse(res, unfit)
    const body = await readBody(req, res, gate.maxBodyBytes).catch(() => undefined)
    if (!body) return void res.destroy()
    const read = body.ok ? readMessages(body.value) : body
    if (!read.ok) return void refuse(res, read.refusal)
    return read.value
  }

  /** What 2025-era clients send all day, known without a closer look: that one costs as much as the rest of the way. */
  const inSession = (req: IncomingMessage, { messages: [message], batch }: Messages): boolean => {
    const version = header(req, 'mcp-protocol-version')
    return (
      !batch &&
      message !== undefined &&
      req.headers['mcp-session-id'] !== undefined &&
      version !== undefined &&
      version !== MODERN &&
      known.includes(version) &&
      req.headers['mcp-method'] === undefined &&
      req.headers['mcp-name'] === undefined &&
      message.method !== 'subscriptions/listen' &&
      // A header that disagrees with what the message says is a mismatch, whatever it says.
      !claimsRevision(message.params) &&
      accepts(req, 'application/json') &&
      accepts(req, 'text/event-stream')
    )
  }

  const run = (res: ServerResponse): void => {
    gate.running.add(res)
    res.once('close', () => gate.running.delete(res))
  }

  /** A session operation named in a revision that has none. */
  const isModern = (req: IncomingMessage): boolean => req.headers['mcp-protocol-version'] === MODERN

  return {
    health: ({ res }) => {
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify(gate.health()))
    },
    async ready({ res }) {
      const why = gate.closing ? 'the server is stopping' : await gate.ready()
      res.statusCode = why === undefined ? 200 : 503
      res.setHeader('content-type', 'application/json')
      if (why !== undefined) res.setHeader('retry-after', '2')
      res.end(JSON.stringify(why === undefined ? { status: 'ready' } : { status: 'not ready', reason: why }))
    },
    resource({ res }) {
      const resource = gate.resource()
      if (!resource) return refuse(res, nothingHere)
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify(resource))
    },
    async metrics({ res, entrant }) {
      // It tells of the tools and servers of all profiles.
      if (!mayReadMetrics(entrant))
        return refuse(
          res,
          refusal(403, `Forbidden: this is for the operator, and tokens with the role "${METRICS_ROLE}"`),
        )
      const text = await gate.metrics?.()
      res.setHeader('content-type', CONTENT_TYPE)
      res.end(text)
    },
    async mcpPost({ req, res, entrant }) {
      const body = await receive(req, res)
      if (!body) return
      const [message] = body.messages
      if (!message) return
      const version = header(req, 'mcp-protocol-version')
      if (version !== undefined && !known.includes(version) && !claimsRevision(message.params))
        return refuse(
          res,
          refusal(400, `Unsupported protocol version: ${version.slice(0, 40)}`, {
            code: -32022,
            id: message.id ?? null,
            data: { supported: known, requested: version.slice(0, 40) },
          }),
        )
      if (inSession(req, body)) {
        run(res)
        return await sessions.post(req, res, entrant, body)
      }
      const era = classifyInboundRequest({
        httpMethod: 'POST',
        body: body.batch ? body.messages : message,
        ...optional('protocolVersionHeader', version),
        ...optional('mcpMethodHeader', header(req, 'mcp-method')),
        ...optional('mcpNameHeader', header(req, 'mcp-name')),
      })
      if (message.method !== 'subscriptions/listen') run(res)
      if (era.kind !== 'legacy' && !body.batch) return modern.post(req, res, entrant, message)
      if (era.kind === 'reject')
        return refuse(res, refusal(era.httpStatus, era.message, { code: era.code, data: era.data }))
      if (!accepts(req, 'application/json') || !accepts(req, 'text/event-stream'))
        return refuse(res, refusal(406, 'Not acceptable: Accept must name application/json and text/event-stream'))
      await sessions.post(req, res, entrant, body)
    },
    mcpListen({ req, res, entrant }) {
      if (isModern(req)) return refuse(res, refusal(405, 'Method not allowed', { headers: { allow: 'POST' } }))
      if (!accepts(req, 'text/event-stream'))
        return refuse(res, refusal(406, 'Not acceptable: Accept must name text/event-stream'))
      return sessions.listen(req, res, entrant)
    },
    async mcpEnd({ req, res, entrant }) {
      if (isModern(req)) return refuse(res, refusal(405, 'Method not allowed', { headers: { allow: 'POST' } }))
      await sessions.end(req, res, entrant)
    },
    sseOpen: ({ res, entrant, rest }) => sse.open(res, entrant, rest),
    async ssePost({ req, res, entrant }) {
      const body = await receive(req, res)
      if (body) sse.post(req, res, entrant, body)
    },
  }
}

const MODERN = '2026-07-28'
/** Whoever has the one token of the configuration that no setting narrows, or needs none. */
const isOperator = ({ principal, bound, grants, credential }: Entrant): boolean =>
  principal === 'local' && !bound && grants === undefined && credential === undefined
const METRICS_ROLE = 'metrics'
const mayReadMetrics = (entrant: Entrant): boolean => isOperator(entrant) || entrant.roles.includes(METRICS_ROLE)

const header = (req: IncomingMessage, name: string): string | undefined => req.headers[name] as string | undefined
const optional = <K extends string>(key: K, value: string | undefined): { readonly [P in K]?: string } =>
  (value === undefined ? {} : { [key]: value }) as { readonly [P in K]?: string }
const accepts = (req: IncomingMessage, type: string): boolean => req.headers.accept?.includes(type) === true
