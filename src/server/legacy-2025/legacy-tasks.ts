import type { Server, ServerContext } from '@modelcontextprotocol/server'
import { abortAfter } from '../../core/abort.ts'
import type { Json } from '../../core/is-record.ts'
import { ProtocolFailure } from '../../core/protocol-failure.ts'
import { isOver, RELATED, toLegacyTask } from '../../core/task-protocol.ts'
import type { Relay } from '../../core/tool.ts'
import { sessionOwner } from '../../exec/task-owner.ts'
import { noTask } from '../call-tool.ts'
import { type FoundTask, findTask } from '../find-task.ts'
import { holderOf } from '../identity.ts'
import { removeHopData } from '../mcp-results.ts'
import { answerUnchecked, type RequestReader } from '../pass-through.ts'
import type { CallHost } from '../server-host.ts'
import { DONE } from '../task-book.ts'

/** Time limit for the state of one task in a list, in milliseconds. */
const SHORT_MS = 5_000
const LISTED = 100

/** Serves the tasks of revision 2025-11-25. Tasks of servers of either era get names of Pegboard. */
export function serveLegacyTasks(server: Server, host: CallHost, { caller, relay }: RequestReader): void {
  type Found = FoundTask & { readonly name: string }

  function find(params: Json, ctx: ServerContext): Found {
    const name = params['taskId']
    const found = findTask(host, caller(ctx), name)
    if (!found) throw noTask
    return { ...found, name: String(name) }
  }

  async function ask({ endpoints, id }: Found, method: string, how: Relay, signal: AbortSignal) {
    if (!endpoints) throw noTask
    return await endpoints.request(method, { taskId: id }, how, signal)
  }

  async function stateOf(found: Found, ctx: ServerContext, signal = ctx.mcpReq.signal): Promise<Json> {
    const task = isKept(found) ? getStoredTask(found.id).task : await ask(found, 'tasks/get', relay(ctx), signal)
    return { ...toLegacyTask(task), taskId: found.name }
  }

  const isKept = ({ owner, at }: Found): boolean => owner === DONE && at === undefined

  function getStoredTask(id: string) {
    const done = host.tasks.storedTask(id)
    if (!done) throw noTask
    return done
  }

  async function list(ctx: ServerContext): Promise<Json> {
    const short = abortAfter(ctx.mcpReq.signal, SHORT_MS)
    const who = caller(ctx)
    const begun = await host.tasks.names(holderOf(who))
    // Background tasks of tools are named by their own ids.
    const here = (await host.tasksHere.list(sessionOwner(who))).map(({ id }) => id)
    const states = await Promise.all(
      [...new Set([...begun, ...here])].slice(0, LISTED).map(async (taskId) => {
        try {
          return [await stateOf(find({ taskId }, ctx), ctx, short.signal)]
        } catch {
          // The server has deleted it, or is unavailable.
          return []
        }
      }),
    )
    short.free()
    return { tasks: states.flat() }
  }

  async function cancel(found: Found, ctx: ServerContext): Promise<Json> {
    const before = await stateOf(found, ctx)
    if (isOver(before['status'])) throw new ProtocolFailure(-32602, `The task is already ${before['status']}`)
    await ask(found, 'tasks/cancel', relay(ctx), ctx.mcpReq.signal)
    return await stateOf(found, ctx)
  }

  async function result(found: Found, ctx: ServerContext): Promise<Json> {
    const related = { [RELATED]: { taskId: found.name } }
    const how = relay(ctx)
    const { request, notify } = how
    const ofTask = (params: unknown): Json => {
      const { _meta, ...rest } = (params ?? {}) as Json
      return { ...rest, _meta: { ...(_meta as object), ...related } }
    }
    const asking: Relay = {
      ...how,
      ...(request ? { request: (method, params, signal) => request(method, ofTask(params), signal) } : {}),
      ...(notify ? { notify: (method, params) => notify(method, ofTask(params)) } : {}),
    }
    const own = isKept(found)
      ? getStoredTask(found.id).result
      : removeHopData(await ask(found, 'tasks/result', asking, ctx.mcpReq.signal))
    return { ...own, _meta: { ...(own['_meta'] as object), ...related } }
  }

  const answers: Readonly<Record<string, (params: Json, ctx: ServerContext) => Promise<Json>>> = {
    'tasks/get': async (params, ctx) => await stateOf(find(params, ctx), ctx),
    'tasks/cancel': async (params, ctx) => await cancel(find(params, ctx), ctx),
    'tasks/result': async (params, ctx) => await result(find(params, ctx), ctx),
    'tasks/list': (_params, ctx) => list(ctx),
  }
  for (const [method, answer] of Object.entries(answers)) answerUnchecked(server, method, answer)
}
