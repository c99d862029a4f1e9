import type { CallContext } from '../core/caller.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { type Observer, type Operation, RUN_OF_A_TOOL } from '../core/observer-types.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import { rawBytes } from '../core/raw-result.ts'
import { acceptsTasks, toModernTask } from '../core/task-protocol.ts'
import type { Relay, RequestOwner } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { timeoutOf } from './adapt-server-tool.ts'
import type { Connection, RequestOptions } from './connection.ts'
import { isContent, withoutOwnSchemes } from './content-blocks.ts'
import { SESSION_LOST } from './fast-requests.ts'
import type { IdleTimer } from './idle-timer.ts'
import { mirroredArguments, mirrorHeaders } from './mirrored-headers.ts'
import { withCheckedOutput } from './output-check.ts'
import type { PrincipalAccess } from './principal-access.ts'
import type { ReconnectingLink } from './reconnecting-link.ts'
import type { EndpointsHost } from './server-endpoints.ts'
import type { Instances } from './server-instances.ts'
import { callAsTask, type OpenTasks, removeTaskId, runsAsTask, runsTasks } from './server-tasks.ts'
import { withTaskSupport } from './task-relay.ts'
import type { ToolRecord } from './tool-definition.ts'
import type { ServerContext } from './upstream-shared.ts'

type McpAnswer = Extract<ToolResult, { kind: 'mcp' }>

export interface CallsHost extends ServerContext {
  readonly link: ReconnectingLink
  readonly instances: Instances
  /** Only if each principal has its own login. */
  readonly access: Pick<PrincipalAccess, 'refused'> | undefined
  readonly idle: IdleTimer
  readonly openTasks: OpenTasks
  /** @throws PegboardError if the tool has been quarantined */
  admit(record: ToolRecord): void
  remember(result: Json): void
  recovered(): void
  changed(): void
  /** Called when the server rejects the shared login. */
  refused(why: string): void
}

/**
 * Sends calls and other requests of clients to one server, connecting first if necessary, and repeats them once if the
 * server has forgotten the session.
 */
export interface ServerCalls extends Pick<EndpointsHost, 'ready' | 'request'> {
  call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult>
}

const isFlag = (value: unknown): boolean => value === undefined || typeof value === 'boolean'
/** Waiting for a task's result may take as long as the task. */
const TASK_MS = 24 * 60 * 60_000
/** Timeout of requests that no caller waits for. */
const SHORT_MS = 5_000

export function createServerCalls(host: CallsHost): ServerCalls {
  const { id, module, shared, log, link, instances, access, idle, openTasks } = host
  const { observer } = shared
  const ownLogins = access !== undefined

  /** Runs work on the caller's connection, if callers have their own. Without a caller, it runs without a login. */
  function withConnectionOf<T>(who: RequestOwner, work: (via: ReconnectingLink) => Promise<T>): Promise<T> {
    if (!access) return instances.using(who, work)
    const { principal } = who
    if (principal === undefined) return refuse()
    return instances.using(who, work).catch((error: unknown) => {
      if (loginWanted(error) !== undefined) access.refused(principal)
      throw error
    })
  }

  /** Counts the server as in use meanwhile. */
  async function whileInUse<T>(work: () => Promise<T>): Promise<T> {
    idle.enter()
    try {
      return await work()
    } finally {
      idle.leave()
    }
  }

  const sendObserved: typeof send = observer
    ? (method, params, options, via) => observedRequest(observer, method, params, options, via)
    : send

  function observedRequest(
    observer: Observer,
    method: string,
    params: Json,
    options: RequestOptions,
    via: ReconnectingLink | undefined,
  ): Promise<Json> {
    const operation = operationOf(method, params)
    return observer.run(operation, async () => {
      const { relay } = options
      const requestOptions = relay
        ? { ...options, relay: { ...relay, meta: observer.addTraceContext(relay.meta) } }
        : options
      const result = await send(method, params, requestOptions, via)
      if (result['isError'] === true) operation.error = 'tool_error'
      return result
    })
  }

  function operationOf(method: string, { name }: Json): Operation {
    const { target } = host.settings()
    const url = target.kind === 'stdio' ? undefined : new URL(target.url)
    return {
      kind: 'upstream',
      name: method === 'tools/call' ? `${method} ${name}` : method,
      attributes: {
        'mcp.method.name': method,
        'pegboard.server': id,
        'network.transport': url ? 'tcp' : 'pipe',
        ...(url ? { 'server.address': url.hostname } : {}),
        ...(url?.port ? { 'server.port': Number(url.port) } : {}),
        ...(method === 'tools/call'
          ? { 'gen_ai.operation.name': RUN_OF_A_TOOL, 'gen_ai.tool.name': String(name) }
          : {}),
      },
    }
  }

  async function send(
    method: string,
    params: Json,
    options: RequestOptions,
    via: ReconnectingLink = link,
  ): Promise<Json> {
    // Other connections count their own use.
    if (via === link) idle.enter()
    try {
      return await sendVia(via, method, params, options)
    } finally {
      if (via === link) idle.leave()
    }
  }

  async function sendVia(via: ReconnectingLink, method: string, params: Json, options: RequestOptions): Promise<Json> {
    const connection = via.live ?? (await via.ready(options.signal))
    try {
      const result = await connection.request(method, params, options)
      via.worked()
      if (via === link) host.recovered()
      return result
    } catch (error) {
      const why = loginWanted(error)
      if (via === link && why !== undefined) host.refused(why)
      if (!isPegboardError(error) || error.code !== 'E_UPSTREAM_UNAVAILABLE') throw error
      if (error.cause !== SESSION_LOST) {
        // It is unknown whether it ran, so it is never repeated. For a child process, its exit tells.
        if (error.retryable && connection.transport !== 'stdio') via.troubled(connection, error)
        throw error
      }
      // The server did not process the request, so repeating it is safe.
      via.lost(connection, 'it lost the session', 0)
      return await (await via.ready(options.signal)).request(method, params, options)
    }
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
    const open = (): Promise<Connection> => via.ready(ctx.signal)
    const connection = via.live ?? (await (via === link ? whileInUse(open) : open()))
    // A new connection may list other tools than the approved ones.
    host.admit(record)
    assertUnchanged(via, record)
    if (!log.terse) log.debug('asked', { callId: ctx.callId, tool: record.name, principal: ctx.caller.principal })
    // With a login per principal, the owner of a later task request is unknown.
    const mayRunAsTask = !ownLogins && runsAsTask(connection.era, connection.capabilities, record)
    if (relay.task && !mayRunAsTask) throw new ProtocolFailure(-32601, `${record.name} does not run as a task`)
    const isLegacy = connection.era === 'legacy'
    const params = { name: record.name, arguments: input, ...(isLegacy ? {} : retryOf(relay)) }
    const options = requestOptions(record, input, ctx, relay, isLegacy)
    const ask = (method: string, own: Json): Promise<Json> => sendObserved(method, own, options, via)
    if (isLegacy && mayRunAsTask && acceptsTasks(options.relay.clientCapabilities)) {
      const created = await ask('tools/call', { ...params, task: relay.task ?? {} })
      const { task } = created
      return isRecord(task) ? toTaskResult(toModernTask(task), via) : toToolResult(record, created)
    }
    const result = onlyAsTask(record, connection)
      ? await callAsTask(params, ask, (method, own) => requestInBackground(connection, method, own))
      : await ask('tools/call', params)
    return toCallResult(result, record, options.relay, via, ctx.caller)
  }

  function requestOptions(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay, isLegacy: boolean) {
    return {
      timeoutMs: timeoutOf(host.settings(), record.name).timeoutMs ?? host.timeoutMs(),
      signal: ctx.signal,
      relay: relay.task ? withTaskSupport(relay) : relay,
      // Servers need not send progress without a listener.
      onProgress: relay.wantsProgress === false ? undefined : (params: Json) => report(params, ctx),
      headers: record.mirrors && !isLegacy ? headersFor(record, input) : undefined,
    }
  }

  /** Sends a request that no caller waits for. */
  function requestInBackground(connection: Connection, method: string, params: Json): void {
    connection
      .request(method, params, { timeoutMs: SHORT_MS })
      .catch((error: unknown) => log.debug(`${method}: ${messageOf(error)}`))
  }

  /** What the client gets: a question, a task, or the result of the tool. */
  function toCallResult(
    result: Json,
    record: ToolRecord,
    { clientCapabilities }: Relay,
    via: ReconnectingLink,
    who: RequestOwner,
  ): ToolResult {
    const { resultType, taskId } = result
    if (resultType === 'input_required') return { kind: 'input_required', result }
    // The owner of later task requests is unknown.
    if (resultType === 'task' && ownLogins)
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} returned a task that belongs to another login.`)
    if (resultType === 'task' && acceptsTasks(clientCapabilities) && typeof taskId === 'string')
      return toTaskResult(result, via)
    const answer = toToolResult(record, result)
    return instances.takeStopped(who) ? warnOfLostState(answer) : answer
  }

  function warnOfLostState(answer: McpAnswer): McpAnswer {
    const text = `Warning: ${id} was stopped because it was idle, and has started again. What earlier calls left there, such as an open page, is gone.`
    return {
      kind: 'mcp',
      result: { ...answer.result, content: [...(answer.result.content ?? []), { type: 'text', text }] },
    }
  }

  /** Each process lists its tools again; the approval was for another process's list. */
  function assertUnchanged(via: ReconnectingLink, record: ToolRecord): void {
    const listed = via === link ? undefined : instances.definition(via, record.name)
    if (listed === undefined || listed === record.text) return
    host.changed()
    throw new PegboardError('E_TOOL_CHANGED', `${id} changed the definition of ${record.name} after it was approved.`, {
      hint: 'The operator reviews the change with pegboard review.',
    })
  }

  /** Adds the server to a task id, for later requests. */
  function toTaskResult(task: Json, via: ReconnectingLink): ToolResult {
    const taskId = instances.nameTask(String(task['taskId']), via)
    openTasks.record({ ...task, taskId })
    return { kind: 'mcp', result: { ...task, resultType: 'task', taskId: `${module}:${taskId}` } }
  }

  function toToolResult(record: ToolRecord, answer: Json): McpAnswer {
    const result = removeTaskId(answer)
    const type = result['resultType']
    if (type !== undefined && type !== 'complete')
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with a result of an unknown type.`)
    // Raw results were scanned on arrival.
    const isReadable = rawBytes(result) && 'content' in result && isFlag(result['isError'])
    const readable = withoutOwnSchemes(id, isReadable ? result : complete(result))
    host.remember(readable)
    return { kind: 'mcp', result: withCheckedOutput(record, readable) }
  }

  /** Fills in what clients require: `content`, and a boolean `isError` if present. */
  function complete(result: Json): Json {
    const { content = [], isError } = result
    if (!isContent(content))
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with content that no client can read.`)
    if (!isFlag(isError))
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} returned a result with an invalid isError.`)
    return content === result['content'] ? result : { ...result, content }
  }

  /** Requests about a task go to its connection. With a login per principal the caller of a task request is unknown. */
  async function askByTask(params: Json, relay: Relay, ask: Ask): Promise<Json> {
    if (ownLogins) return await withConnectionOf({}, (via) => ask(via, params))
    const { taskId } = params
    const instanceTask = instances.ofTask(taskId)
    if (!instanceTask) return await withConnectionOf(relay, (via) => ask(via, params))
    const answer = await ask(instanceTask.link, { ...params, taskId: instanceTask.taskId })
    return instanceTask.taskId === taskId || answer['taskId'] !== instanceTask.taskId ? answer : { ...answer, taskId }
  }

  return {
    call,
    ready: (signal, who) => withConnectionOf(who, (via) => whileInUse(() => via.ready(signal))),
    request(method, params, relay, signal) {
      const ask: Ask = (via, own) => {
        const limitMs = method === 'tasks/result' ? TASK_MS : host.timeoutMs()
        return sendObserved(method, { ...own, ...retryOf(relay) }, { timeoutMs: limitMs, relay, signal }, via)
      }
      return method.startsWith('tasks/')
        ? askByTask(params, relay, ask)
        : withConnectionOf(relay, (via) => ask(via, params))
    },
  }
}

type Ask = (via: ReconnectingLink, params: Json) => Promise<Json>

/** Explains that a login no longer works. A scope missing for one call does not affect others. */
function loginWanted(error: unknown): string | undefined {
  if (!isPegboardError(error) || error.code !== 'E_AUTH_REQUIRED') return undefined
  return isPegboardError(error.cause) && error.cause.data === undefined ? error.cause.message : undefined
}

const onlyAsTask = ({ text }: ToolRecord, { era, capabilities }: Connection): boolean =>
  era === 'legacy' && runsTasks(capabilities) && text.includes('"taskSupport":"required"')

const refuse = (): Promise<never> =>
  Promise.reject(new ProtocolFailure(-32601, 'Not available for servers with one login per principal'))

/** The parts of a repeated request that answer a server's questions. */
const retryOf = ({ inputResponses, requestState }: Relay): Json => omitUndefined({ inputResponses, requestState })

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
