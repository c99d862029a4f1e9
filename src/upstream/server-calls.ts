import type { CallContext } from '../core/caller.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import { acceptsTasks, toModernTask } from '../core/task-protocol.ts'
import type { Relay, RequestOwner } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { timeoutOf } from './adapt-server-tool.ts'
import { createCallResults } from './call-results.ts'
import type { Connection } from './connection.ts'
import type { IdleTimer } from './idle-timer.ts'
import { mirroredArguments, mirrorHeaders } from './mirrored-headers.ts'
import type { PrincipalAccess } from './principal-access.ts'
import type { ReconnectingLink } from './reconnecting-link.ts'
import { createRequestSender, rejectedLogin } from './request-sender.ts'
import type { EndpointsHost } from './server-endpoints.ts'
import type { Instances } from './server-instances.ts'
import { callAsTask, type OpenTasks, runsAsTask, runsTasks } from './server-tasks.ts'
import { withTaskSupport } from './task-relay.ts'
import type { ToolRecord } from './tool-definition.ts'
import type { ServerContext } from './upstream-shared.ts'

export interface CallsHost extends ServerContext {
  /** The connection that lists are read from. */
  readonly link: ReconnectingLink
  readonly idle: IdleTimer
  readonly instances: Instances
  /** Only if each principal has its own login. */
  readonly access: Pick<PrincipalAccess, 'refused'> | undefined
  readonly openTasks: OpenTasks
  /** @throws PegboardError if the tool has been quarantined */
  admit(record: ToolRecord): void
  /** Remembers the resources that a result links to. */
  remember(result: Json): void
  /** Called after each successful request on `link`. */
  recovered(): void
  /** Called when the server rejects the shared login. */
  refused(why: string): void
  /** Called when the server lists another definition than the approved one. */
  toolsChanged(): void
}

/** Chooses the caller's connection for each call and each other request of a client, and sends it to the server. */
export interface ServerCalls extends Pick<EndpointsHost, 'ready' | 'request'> {
  call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult>
}

/** Waiting for a task's result may take as long as the task. */
const TASK_MS = 24 * 60 * 60_000
/** Timeout of requests that no caller waits for. */
const SHORT_MS = 5_000

export function createServerCalls(host: CallsHost): ServerCalls {
  const { id, log, link, instances, access, idle } = host
  const ownLogins = access !== undefined
  const send = createRequestSender(host)
  const { toCallResult, toTaskResult, toToolResult } = createCallResults(host)

  /** Runs work on the caller's connection, if callers have their own. Without a caller, it runs without a login. */
  function withConnectionOf<T>(who: RequestOwner, work: (via: ReconnectingLink) => Promise<T>): Promise<T> {
    if (!access) return instances.using(who, work)
    const { principal } = who
    if (principal === undefined) return refuse()
    return instances.using(who, work).catch((error: unknown) => {
      if (rejectedLogin(error) !== undefined) access.refused(principal)
      throw error
    })
  }

  function call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult> {
    return withConnectionOf(ctx.caller, (via) => callVia(via, record, input, ctx, relay))
  }

  async function callVia(
    via: ReconnectingLink,
    record: ToolRecord,
    input: unknown,
    ctx: CallContext,
    relay: Relay,
  ): Promise<ToolResult> {
    const connection = via.live() ?? (await connect(via, ctx.signal))
    const { era, capabilities } = connection
    // A new connection may list other tools than the approved ones.
    host.admit(record)
    assertUnchanged(via, record)
    if (!log.terse) log.debug('asked', { callId: ctx.callId, tool: record.name, principal: ctx.caller.principal })
    // With a login per principal, the owner of a later task request is unknown.
    const mayRunAsTask = !ownLogins && runsAsTask(era, capabilities, record)
    if (relay.task && !mayRunAsTask) throw new ProtocolFailure(-32601, `${record.name} does not run as a task`)
    const isLegacy = era === 'legacy'
    const params = { name: record.name, arguments: input, ...(isLegacy ? {} : answersIn(relay)) }
    const options = requestOptions(host, record, input, ctx, relay, isLegacy)
    const request = (method: string, own: Json): Promise<Json> => send(via, method, own, options)

    // The client gets a task, and reads the result with later requests.
    if (isLegacy && mayRunAsTask && acceptsTasks(options.relay.clientCapabilities)) {
      const created = await request('tools/call', { ...params, task: relay.task ?? {} })
      const { task } = created
      return isRecord(task) ? toTaskResult(toModernTask(task), via) : toToolResult(created, record)
    }
    // The client does not know tasks, so Pegboard waits for the result of the task.
    const answer = requiresTask(record, connection)
      ? await callAsTask(params, request, (method, own) => requestInBackground(connection, method, own))
      : await request('tools/call', params)
    return toCallResult(answer, record, options.relay, via, ctx.caller)
  }

  function connect(via: ReconnectingLink, signal: AbortSignal): Promise<Connection> {
    // Other connections count their own use.
    return via === link ? idle.during(() => via.ready(signal)) : via.ready(signal)
  }

  /** Each process lists its tools again; the approval was for another process's list. */
  function assertUnchanged(via: ReconnectingLink, record: ToolRecord): void {
    const listed = via === link ? undefined : instances.definition(via, record.name)
    if (listed === undefined || listed === record.text) return
    host.toolsChanged()
    throw new PegboardError('E_TOOL_CHANGED', `${id} changed the definition of ${record.name} after it was approved.`, {
      hint: 'The operator reviews the change with pegboard review.',
    })
  }

  /** Sends a request that no caller waits for. */
  function requestInBackground(connection: Connection, method: string, params: Json): void {
    connection
      .request(method, params, { timeoutMs: SHORT_MS })
      .catch((error: unknown) => log.debug(`${method}: ${messageOf(error)}`))
  }

  function request(method: string, params: Json, relay: Relay, signal: AbortSignal): Promise<Json> {
    const sendVia: SendVia = (via, own) => {
      const timeoutMs = method === 'tasks/result' ? TASK_MS : host.timeoutMs()
      return send(via, method, { ...own, ...answersIn(relay) }, { timeoutMs, relay, signal })
    }
    if (method.startsWith('tasks/')) return requestAboutTask(params, relay, sendVia)
    return withConnectionOf(relay, (via) => sendVia(via, params))
  }

  /** Sends a request about a task on the connection that has the task. */
  async function requestAboutTask(params: Json, relay: Relay, sendVia: SendVia): Promise<Json> {
    // With a login per principal, the caller of a task request is unknown.
    if (ownLogins) return await withConnectionOf({}, (via) => sendVia(via, params))
    const { taskId } = params
    const instanceTask = instances.ofTask(taskId)
    if (!instanceTask) return await withConnectionOf(relay, (via) => sendVia(via, params))
    const answer = await sendVia(instanceTask.link, { ...params, taskId: instanceTask.taskId })
    const namesTask = answer['taskId'] === instanceTask.taskId
    return namesTask ? { ...answer, taskId } : answer
  }

  return {
    call,
    ready: (signal, who) => withConnectionOf(who, (via) => idle.during(() => via.ready(signal))),
    request,
  }
}

type SendVia = (via: ReconnectingLink, params: Json) => Promise<Json>

function requestOptions(
  { settings, timeoutMs }: CallsHost,
  record: ToolRecord,
  input: unknown,
  ctx: CallContext,
  relay: Relay,
  isLegacy: boolean,
) {
  return {
    timeoutMs: timeoutOf(settings(), record.name).timeoutMs ?? timeoutMs(),
    signal: ctx.signal,
    relay: relay.task ? withTaskSupport(relay) : relay,
    // Servers need not send progress without a listener.
    onProgress: relay.wantsProgress === false ? undefined : (params: Json) => report(params, ctx),
    headers: record.mirrors && !isLegacy ? headersFor(record, input) : undefined,
  }
}

/** True if a 2025-11-25 server runs this tool only as a task. */
const requiresTask = ({ text }: ToolRecord, { era, capabilities }: Connection): boolean =>
  era === 'legacy' && runsTasks(capabilities) && text.includes('"taskSupport":"required"')

const refuse = (): Promise<never> =>
  Promise.reject(new ProtocolFailure(-32601, 'Not available for servers with one login per principal'))

/** The parts of a repeated request that answer a server's questions. */
const answersIn = ({ inputResponses, requestState }: Relay): Json => omitUndefined({ inputResponses, requestState })

function report({ progress, total, message }: Json, ctx: CallContext): void {
  if (typeof progress !== 'number') return
  ctx.progress(
    progress,
    typeof total === 'number' ? total : undefined,
    typeof message === 'string' ? message : undefined,
  )
}

function headersFor({ text }: Pick<ToolRecord, 'text'>, input: unknown): Record<string, string> | undefined {
  const mirrored = mirroredArguments((JSON.parse(text) as Json)['inputSchema'])
  return typeof mirrored === 'string' ? undefined : mirrorHeaders(mirrored, input)
}
