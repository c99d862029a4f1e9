import type { Server, ServerContext } from '@modelcontextprotocol/server'
import type { Json } from '../../core/is-record.ts'
import { omitUndefined } from '../../core/omit-undefined.ts'
import { ProtocolFailure } from '../../core/protocol-failure.ts'
import { MODERN_REVISION } from '../../core/protocol-revisions.ts'
import { acceptsTasks, TASK_METHODS, TASKS } from '../../core/task-protocol.ts'
import { noTask } from '../call-tool.ts'
import { modernCapabilities } from '../capabilities.ts'
import { findTask } from '../find-task.ts'
import { instructionsFor } from '../instructions.ts'
import { removeHopData } from '../mcp-results.ts'
import { answerUnchecked, type RequestReader, servePassThrough } from '../pass-through.ts'
import type { CallHost, ServerHost } from '../server-host.ts'

/** Serves what 2026 clients send besides calls and lists of tools: resources, prompts, discovery and tasks. */
export function serveModern(server: Server, host: ServerHost, reader: RequestReader): void {
  servePassThrough(server, host, reader)
  serveModernTasks(server, host, reader)
  const connect = server.connect.bind(server)
  // The SDK has one text of instructions for all clients. It sets its handler just before it connects.
  server.connect = (transport) => {
    server.setRequestHandler('server/discover', (_request, ctx) => ({
      supportedVersions: [MODERN_REVISION],
      capabilities: modernCapabilities,
      instructions: instructionsFor(host, reader.caller(ctx)),
    }))
    return connect(transport)
  }
}

/**
 * Relays the tasks of servers to 2026 clients. The name of a task contains its principal and server, sealed, so nothing is
 * stored and the task is found after a restart.
 */
function serveModernTasks(server: Server, host: CallHost, { caller, relay }: RequestReader): void {
  const ask = async (method: string, params: Json, ctx: ServerContext): Promise<Json> => {
    const clientRelay = relay(ctx)
    if (!acceptsTasks(clientRelay.clientCapabilities))
      throw new ProtocolFailure(-32021, 'The client did not declare that it supports tasks', {
        requiredCapabilities: { extensions: { [TASKS]: {} } },
      })
    const who = caller(ctx)
    const found = findTask(host, who, params['taskId'])
    if (!found?.endpoints) throw noTask
    const serverParams = { ...params, taskId: found.id }
    const result = await found.endpoints.request(method, serverParams, clientRelay, ctx.mcpReq.signal)
    const { resultType: _theirs, ...rest } = result
    // `removeHopData` removes `ttlMs`, which in other results is the lifetime of a cache entry.
    const answer = { ...removeHopData(rest), ...omitUndefined({ ttlMs: rest.ttlMs }) }
    return 'taskId' in answer ? { ...answer, taskId: params['taskId'] } : answer
  }
  for (const method of TASK_METHODS) answerUnchecked(server, method, (params, ctx) => ask(method, params, ctx))
}
