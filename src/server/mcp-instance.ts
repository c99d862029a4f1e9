import { McpServer, type ServerContext } from '@modelcontextprotocol/server'
import type { Caller } from '../core/caller.ts'
import { CLIENT_CAPABILITIES, CLIENT_INFO } from '../core/protocol-meta.ts'
import { rawBytes } from '../core/raw-result.ts'
import type { McpResult } from '../core/tool-result.ts'
import type { ListedTool } from '../view/listed-tools.ts'
import { modernCapabilities, sessionCapabilities } from './capabilities.ts'
import type { ClientQuestions } from './legacy-2025/client-questions.ts'
import { serveSession } from './legacy-2025/session-handlers.ts'
import { serveModern } from './modern-2026/modern-handlers.ts'
import { asProtocolError, checkCursor } from './pass-through.ts'
import type { ClientRequest, RequestBuilder } from './request-builder.ts'
import type { SdkInstance } from './server-factory.ts'
import type { ServerHost } from './server-host.ts'

/** One MCP server of the SDK over the shared catalog: one for a connection (2025), or for a request (2026). */
export interface McpInstance extends SdkInstance {
  readonly server: Instance
  /** Keeps the first result of a call that the fast path made, so that the SDK does not make the call again. */
  keepFirstResult(id: string | number, result: McpResult): void
}

// Lists change whenever a server connects or disconnects, and not every client is notified.
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

/** @param questions 2025: sends requests to the client */
export function createMcpInstance(
  host: ServerHost,
  requests: RequestBuilder,
  questions?: ClientQuestions,
): McpInstance {
  const { connection } = requests
  const { era, identity } = connection
  // One request may name another profile than the next.
  const cache = host.trustMeta === 'all' && !identity.bound ? { ...CACHE, ttlMs: 0 } : CACHE
  const mcp = new Instance(
    { name: host.name, version: host.version },
    {
      capabilities: era === 'modern' ? modernCapabilities : sessionCapabilities,
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
  mcp.host = host
  mcp.callerNow = () =>
    requests.callerFor({
      meta: undefined,
      envelope: { [CLIENT_INFO]: server.getClientVersion(), [CLIENT_CAPABILITIES]: server.getClientCapabilities() },
    })
  const firstResults = new Map<string | number, McpResult>()

  // 2025 clients take only objects as structured content; 2026 servers may send anything.
  const project = (result: McpResult): McpResult =>
    !rawBytes(result) && 'structuredContent' in result
      ? (server.projectCallToolResult(result as never, undefined) as McpResult)
      : result

  const toClientRequest = ({ mcpReq }: ServerContext, task?: unknown): ClientRequest => ({
    meta: mcpReq._meta,
    envelope: mcpReq.envelope as ClientRequest['envelope'],
    inputResponses: mcpReq.inputResponses,
    requestState: mcpReq.requestState(),
    task,
    ...(questions ? { ask: questions.ask(mcpReq.id) } : {}),
    // A client that has disconnected is noticed by its transport.
    notify: (method, params) => void mcpReq.notify({ method, params } as never).catch(() => undefined),
  })

  let listed: readonly ListedTool[] | undefined
  server.setRequestHandler('tools/list', (request, ctx) => {
    checkCursor(request.params)
    const answer = requests.listTools(toClientRequest(ctx))
    if (!connection.perRequest) return answer as never
    // The writer of the HTTP response puts the list in as bytes.
    listed = answer.tools
    return { ...answer, tools: [] } as never
  })

  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    const { id, signal } = ctx.mcpReq
    const firstResult = firstResults.get(id)
    if (firstResult) {
      firstResults.delete(id)
      return project(firstResult) as never
    }
    const call = { name: params.name, input: params.arguments, signal }
    const result = await requests
      .callTool(toClientRequest(ctx, (params as { task?: unknown }).task), call)
      .catch((error) => {
        throw asProtocolError(error, era)
      })
    return project(result) as never
  })

  const reader = {
    era,
    caller: (ctx: ServerContext) => requests.callerFor(toClientRequest(ctx)),
    relay: (ctx: ServerContext) => requests.relayFor(toClientRequest(ctx)),
  }
  if (era === 'modern') serveModern(server, host, reader)
  const endSession = era === 'legacy' ? serveSession(server, host, requests, reader) : undefined

  return {
    server: mcp,
    listed: () => listed,
    keepFirstResult: (id, result) => firstResults.set(id, result),
    dispose: () => endSession?.(),
  }
}
