import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  LOG_LEVEL_META_KEY,
  McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { Caller } from '../core/context.ts'
import { asksForGateways, gatewaysAnswer } from '../core/gateways.ts'
import { isWanted } from '../core/levels.ts'
import { rawBytes } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import type { McpResult } from '../core/result.ts'
import { noRelay, type Relay, relayOf } from '../core/tool.ts'
import type { ListedTool } from '../view/listing.ts'
import { callTool, laneCall, progressTo } from './answer.ts'
import { type Connection, callerOf } from './caller.ts'
import { modernCapabilities, serverCapabilities, withTasks } from './capabilities.ts'
import { type Claims, createClaims, withoutClaims } from './claims.ts'
import type { ServerHost } from './host.ts'
import { sayable } from './inspected.ts'
import { instructionsFor } from './instructions.ts'
import { createLane, type Lane, type LaneOptions } from './lane.ts'
import type { Listener } from './notify.ts'
import { toldOfList } from './observed.ts'
import { relayOlderTasks } from './older-tasks.ts'
import { asProtocolError, checkCursor, passThrough } from './passthrough.ts'
import { ownerOfResource } from './route.ts'
import { taskStatus } from './task-status.ts'
import { relayTasks } from './tasks.ts'

/** One MCP server instance over the shared catalogue: cheap, made per connection (2025) or per request (2026). */
export interface McpInstance extends Listener {
  readonly server: Instance
  /** The fast lane hands over a first answer it got, so that the call is not made twice. */
  answered(id: string | number, result: McpResult): void
  /** The tools that belong into the empty list it answered a request of an era without connections. */
  listed(): readonly ListedTool[] | undefined
  /** What stands before the server in a session: it answers calls and lists, and leaves the rest to `server`. */
  laneTo(send: LaneOptions['send']): Lane
  dispose(): void
}

// Lists may change whenever an upstream comes or goes, and clients differ in whether they are told.
const CACHE = { ttlMs: 5_000, cacheScope: 'private' } as const

class Instance extends McpServer {
  declare host: ServerHost
  declare callerNow: () => Caller
  // The HTTP entry checks Mcp-Param headers against this.
  override toolInputSchemaJson(name: string): Record<string, unknown> | undefined {
    const found = this.host.view(this.callerNow()).resolve(name)
    return found.kind === 'found' ? (found.tool.input.json as Record<string, unknown>) : undefined
  }
}

/** @param claims what requests of the connection say of themselves, where it has other ways to be asked as well */
export function createMcpInstance(
  host: ServerHost,
  connection: Connection,
  claims: Claims = createClaims(host, connection.entrant),
): McpInstance {
  const { entrant } = connection
  // One request may be of another profile than the next.
  const cache = host.trustMeta === 'all' && !entrant.bound ? { ...CACHE, ttlMs: 0 } : CACHE
  const first = callerOf(connection, undefined, undefined)
  const mcp = new Instance(
    { name: host.name, version: host.version },
    {
      capabilities: (connection.era === 'modern'
        ? modernCapabilities
        : withTasks(serverCapabilities, host.view(first).owners)) as typeof serverCapabilities,
      instructions: instructionsFor(host, first),
      cacheHints: {
        'tools/list': cache,
        'prompts/list': cache,
        'resources/list': cache,
        'resources/templates/list': cache,
        'resources/read': { ttlMs: 0, cacheScope: 'private' },
        'server/discover': cache,
      },
    },
  )
  const { server } = mcp
  const early = new Map<string | number, McpResult>()
  // 2025-era clients set it once for the session; upstreams of 2026 want it with every request.
  let logLevel: string | undefined

  // 2025-era clients take only objects as structured content; newer upstreams may send anything.
  const project = (result: McpResult): McpResult =>
    !rawBytes(result) && 'structuredContent' in result
      ? (server.projectCallToolResult(result as never, undefined) as McpResult)
      : result

  const callerNow = (ctx?: ServerContext): Caller => {
    const envelope = envelopeOf(ctx)
    const base = envelope
      ? callerOf(connection, envelope[CLIENT_INFO_META_KEY], envelope[CLIENT_CAPABILITIES_META_KEY])
      : callerOf(connection, server.getClientVersion(), server.getClientCapabilities())
    return ctx ? claims.of(base, ctx.mcpReq._meta) : base
  }
  mcp.host = host
  mcp.callerNow = () => callerNow()

  const relayFor = (ctx: ServerContext, task?: Readonly<Record<string, unknown>>): Relay => {
    const { progressToken: _ours, ...meta } = withoutClaims(ctx.mcpReq._meta ?? {}) as Record<string, unknown>
    const level = envelopeOf(ctx)?.[LOG_LEVEL_META_KEY] ?? logLevel
    const state = ctx.mcpReq.requestState()
    return {
      principal: callerNow(ctx).principal,
      ...(connection.session === undefined ? {} : { session: connection.session }),
      wantsProgress: ctx.mcpReq._meta?.progressToken !== undefined,
      ...(connection.perRequest ? {} : { connection }),
      meta: level === undefined ? meta : { ...meta, [LOG_LEVEL_META_KEY]: level },
      ...(ctx.mcpReq.inputResponses === undefined ? {} : { inputResponses: ctx.mcpReq.inputResponses }),
      ...(state === undefined ? {} : { requestState: state }),
      ...(connection.era === 'legacy' && task !== undefined ? { task } : {}),
      clientCapabilities: (envelopeOf(ctx)?.[CLIENT_CAPABILITIES_META_KEY] ??
        server.getClientCapabilities() ??
        {}) as Record<string, unknown>,
      ...(connection.era === 'legacy'
        ? {
            request: (method: string, params: unknown, signal?: AbortSignal) =>
              ctx.mcpReq.send(
                { method, params } as never,
                anything as never,
                { timeout: HUMAN_MS, ...(signal ? { signal } : {}) } as never,
              ),
          }
        : {}),
      notify: (method, params) => {
        // Log messages go only to who asked for them, whatever another caller's level made the upstream say.
        if (method === 'notifications/message') {
          if (level === undefined ? connection.era === 'modern' : !isWanted(params, level)) return
        }
        const said = isRecord(params) ? sayable(host, callerNow(ctx), params) : params
        // A client that has gone is noticed elsewhere.
        if (said !== undefined) void ctx.mcpReq.notify({ method, params: said } as never).catch(() => undefined)
      },
    }
  }

  let listed: readonly ListedTool[] | undefined
  server.setRequestHandler('tools/list', (request, ctx) => {
    checkCursor(request.params)
    const tools = toldOfList(host, ctx.mcpReq._meta, () => host.lists.of(callerNow(ctx)))
    const more = asksForGateways(ctx.mcpReq._meta) ? { _meta: gatewaysAnswer(host.gateways()) } : {}
    if (!connection.perRequest) return { tools, ...more } as never
    // Who writes the answer puts them in as bytes.
    listed = tools
    return { tools: [], ...more } as never
  })

  server.setRequestHandler('tools/call', async (request, ctx) => {
    const done = early.get(ctx.mcpReq.id)
    if (done) {
      early.delete(ctx.mcpReq.id)
      return project(done) as never
    }
    const token = ctx.mcpReq._meta?.progressToken
    const result = await callTool(host, {
      name: request.params.name,
      input: request.params.arguments,
      caller: callerNow(ctx),
      signal: ctx.mcpReq.signal,
      relay: relayFor(ctx, taskOf(request.params)),
      ...(token === undefined
        ? {}
        : {
            onProgress: progressTo(
              token,
              (params) =>
                void ctx.mcpReq.notify({ method: 'notifications/progress', params } as never).catch(() => undefined),
            ),
          }),
    }).catch((error) => {
      throw asProtocolError(error, connection.era)
    })
    return project(result) as never
  })

  // The SDK writes -32602 for it, which is the code of the newer revision.
  const missed = new Set<string | number>()
  if (connection.era === 'legacy') {
    const connect = server.connect.bind(server)
    server.connect = (transport) => {
      const send = transport.send.bind(transport)
      transport.send = (message, options) =>
        send(
          'error' in message && missed.delete(message.id as string | number) ? asNoResource(message) : message,
          options,
        )
      return connect(transport)
    }
  }

  const passing = {
    era: connection.era,
    caller: callerNow,
    relay: relayFor,
    missed: (id: string | number) => void missed.add(id),
  }
  const subscribed = passThrough(server, host, passing)
  if (connection.era === 'modern') relayTasks(server, host, passing)
  if (connection.era === 'legacy') {
    relayOlderTasks(server, host, passing)
    server.setRequestHandler('logging/setLevel', (request, ctx) => {
      logLevel = request.params.level
      // An upstream says what anyone wants, each session takes its own. None is waited for: one that is gone must not hold the answer.
      for (const owner of host.view(callerNow(ctx)).owners)
        owner.endpoints
          ?.request('logging/setLevel', { level: logLevel }, relayFor(ctx), AbortSignal.timeout(SHORT_MS))
          .catch((error) => host.log.debug('a log level was not taken', { owner: owner.id, error }))
      return {}
    })
  }

  const callers = (): readonly Caller[] => [callerNow(), ...claims.others()]
  const isSeen = (owner: string, by: readonly Caller[] = callers()): boolean =>
    by.some((caller) => host.view(caller).owners.some(({ id }) => id === owner))
  const stopListening = connection.perRequest
    ? undefined
    : host.onUpstream({
        log: (params, owner, who) => {
          if (
            who &&
            (who.session === undefined ? who.principal !== entrant.principal : who.session !== connection.session)
          )
            return
          if (logLevel === undefined || !isWanted(params, logLevel) || (owner !== undefined && !isSeen(owner))) return
          const said = sayable(host, callerNow(), params, owner)
          if (said) void server.notification({ method: 'notifications/message', params: said } as never).catch(gone)
        },
        resourceUpdated: (owner, uri) => {
          const by = subscribed.get(uri)
          if (by ? isSeen(owner, [by]) : connection.era === 'modern' && isSeen(owner))
            void server.sendResourceUpdated({ uri }).catch(() => undefined)
        },
        task: (owner, task) => {
          if (connection.era !== 'legacy') return
          const params = taskStatus(host, { session: connection.session, callers: callers() }, owner, task)
          if (params) void server.notification({ method: 'notifications/tasks/status', params } as never).catch(gone)
        },
      })

  return {
    server: mcp,
    callers,
    listed: () => listed,
    notify: (method, params) => void server.notification({ method, params } as never).catch(gone),
    toolsChanged: () => void server.sendToolListChanged().catch(gone),
    promptsChanged: () => void server.sendPromptListChanged().catch(gone),
    resourcesChanged: () => void server.sendResourceListChanged().catch(gone),
    answered: (id, result) => early.set(id, result),
    laneTo: (send) =>
      createLane({
        host,
        entrant,
        claims,
        session: connection.session ?? '',
        capabilities: serverCapabilities,
        send,
        call: laneCall(host),
        handOver(message, result) {
          if (message.id !== undefined) early.set(message.id, result)
          server.transport?.onmessage?.(message as never)
        },
      }),
    dispose() {
      stopListening?.()
      // Upstreams count who is subscribed; a client that leaves seldom says so.
      const { owners } = host.view(callerNow())
      if (logLevel !== undefined)
        for (const owner of owners)
          owner.endpoints
            ?.request('logging/setLevel', {}, { ...noRelay, connection }, AbortSignal.timeout(SHORT_MS))
            .catch((error) => host.log.debug('a log level was not taken back', { owner: owner.id, error }))
      for (const [uri, by] of subscribed) {
        const owner = ownerOfResource(host.view(by).owners, uri)
        owner?.endpoints
          ?.request('resources/unsubscribe', { uri }, relayOf(by), AbortSignal.timeout(SHORT_MS))
          .catch((error) => host.log.debug('unsubscribing failed', { uri, error }))
      }
    },
  }
}

const asNoResource = <Answer extends { readonly error: object }>(answer: Answer): Answer => ({
  ...answer,
  error: { ...answer.error, code: -32002 },
})

/** What a client asks of the task that it wants a call to be. */
const taskOf = ({ task }: { readonly task?: unknown }): Readonly<Record<string, unknown>> | undefined =>
  typeof task === 'object' && task !== null ? (task as Record<string, unknown>) : undefined

const envelopeOf = (ctx: ServerContext | undefined): Readonly<Record<string, unknown>> | undefined =>
  ctx?.mcpReq.envelope as Record<string, unknown> | undefined

/** A client that went away needs not be told; its end is noticed elsewhere. */
const gone = (): undefined => undefined

/** How long a person may take over a question. */
const HUMAN_MS = 10 * 60_000
/** How long what nobody waits for may take. */
const SHORT_MS = 5_000

/** Accepts any result as it is: what passes through is not ours to check. */
const anything = { '~standard': { version: 1, vendor: 'pegboard', validate: (value: unknown) => ({ value }) } } as const
