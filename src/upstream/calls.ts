import type { CallContext } from '../core/context.ts'
import { stopOf } from '../core/ending.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { ProtocolFailure } from '../core/failure.ts'
import type { Log } from '../core/log.ts'
import { type Observer, type Operation, RUN_OF_A_TOOL } from '../core/observer.ts'
import { rawBytes } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import type { ToolResult } from '../core/result.ts'
import { newerTask, takesTasks } from '../core/tasks.ts'
import type { Relay, Who } from '../core/tool.ts'
import { timeoutOf } from './adapt.ts'
import type { Connection, RequestOptions } from './connection.ts'
import { isContent } from './content.ts'
import type { ToolRecord } from './definition.ts'
import type { Idle } from './idle.ts'
import type { Instances } from './instances.ts'
import { SESSION_LOST } from './lane.ts'
import type { Link } from './link.ts'
import { mirroredArguments, mirrorHeaders } from './mirror.ts'
import type { OpenTasks } from './open-tasks.ts'
import { withCheckedOutput } from './output-check.ts'
import type { ServerSettings } from './settings.ts'
import { takingTasks } from './task-relay.ts'
import { callAsTask, runsAsTask, runsTasks } from './tasks.ts'

type Json = Readonly<Record<string, unknown>>

/** What calls need of their server. */
export interface CallsHost {
  readonly id: string
  readonly module: string
  readonly log: Log
  readonly link: Link
  readonly instances: Instances
  /** Every principal logs in for itself. */
  readonly ownLogins: boolean
  readonly idle: Idle
  readonly openTasks: OpenTasks
  /** Told of requests; absent: nobody. */
  readonly observer?: Observer | undefined
  settings(): ServerSettings
  timeoutMs(): number
  /** @throws PegboardError when the tool is kept out by now */
  admit(record: ToolRecord): void
  /** A result may name resources. */
  remember(result: Json): void
  /** A request got through. */
  recovered(): void
  /** Its tools are not what they were. */
  changed(): void
  /** It does not let us in any more. */
  refused(why: string): void
  /** It does not take the login of this principal any more. */
  refusedTo(principal: string): void
}

/** Requests to one server: over a connection that may have to be made first, and made once more where it forgot us. */
export interface ServerCalls {
  /** On the connection of whoever asks, where callers have their own. What does not say who asks runs with nobody's login. */
  by<T>(who: Who, work: (via: Link) => Promise<T>): Promise<T>
  /** The server counts as used meanwhile. */
  used<T>(work: () => Promise<T>): Promise<T>
  request(method: string, params: Json, options: RequestOptions, via?: Link): Promise<Json>
  call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult>
}

const isFlag = (value: unknown): boolean => value === undefined || typeof value === 'boolean'
/** How long what nobody waits for may take. */
const SHORT_MS = 5_000

export function createServerCalls(host: CallsHost): ServerCalls {
  const { id, module, log, link, instances, ownLogins, idle, openTasks, observer } = host

  function by<T>(who: Who, work: (via: Link) => Promise<T>): Promise<T> {
    if (!ownLogins) return instances.using(who, work)
    const { principal } = who
    if (principal === undefined) return refuse()
    return instances.using(who, work).catch((error: unknown) => {
      if (loginWanted(error) !== undefined) host.refusedTo(principal)
      throw error
    })
  }

  async function used<T>(work: () => Promise<T>): Promise<T> {
    idle.enter()
    try {
      return await work()
    } finally {
      idle.leave()
    }
  }

  const request: typeof send = observer
    ? (method, params, options, via) => told(observer, method, params, options, via)
    : send

  function told(
    observer: Observer,
    method: string,
    params: Json,
    options: RequestOptions,
    via: Link | undefined,
  ): Promise<Json> {
    const operation = operationOf(method, params)
    return observer.run(operation, async () => {
      const { relay } = options
      const how = relay ? { ...options, relay: { ...relay, meta: observer.carried(relay.meta) } } : options
      const result = await send(method, params, how, via)
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

  async function send(method: string, params: Json, options: RequestOptions, via: Link = link): Promise<Json> {
    // Whether another connection is used is known to who lent it.
    if (via === link) idle.enter()
    try {
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
          // Whether it ran is not known, so it is never sent again; a child's end is told by the child.
          if (error.retryable && connection.transport !== 'stdio') via.troubled(connection, error)
          throw error
        }
        // The server never saw the request, so it may be made again whatever it does.
        via.lost(connection, 'it forgot the session', 0)
        return await (await via.ready(options.signal)).request(method, params, options)
      }
    } finally {
      if (via === link) idle.leave()
    }
  }

  function call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult> {
    return by(ctx.caller, (via) => callBy(via, record, input, ctx, relay))
  }

  async function callBy(
    via: Link,
    record: ToolRecord,
    input: unknown,
    ctx: CallContext,
    relay: Relay,
  ): Promise<ToolResult> {
    const open = (): Promise<Connection> => via.ready(stopOf(ctx))
    const connection = via.live ?? (await (via === link ? used(open) : open()))
    // What a new connection listed may not be what was approved.
    host.admit(record)
    checkSame(via, record)
    const params = { name: record.name, arguments: input, ...(connection.era === 'modern' ? retryOf(relay) : {}) }
    if (!log.terse) log.debug('asked', { callId: ctx.callId, tool: record.name, principal: ctx.caller.principal })
    // Where each logs in for itself, who asks for a task later is not known here.
    const may = !ownLogins && runsAsTask(connection.era, connection.capabilities, record)
    if (relay.task && !may) throw new ProtocolFailure(-32601, `${record.name} does not run as a task`)
    const how = {
      timeoutMs: timeoutOf(host.settings(), record.name).timeoutMs ?? host.timeoutMs(),
      signal: stopOf(ctx),
      relay: instances.asking(ctx.caller, via, relay.task ? takingTasks(relay) : relay),
      // A server told that nobody listens need not count.
      onProgress: relay.wantsProgress === false ? undefined : (params: Json) => report(params, ctx),
      headers: record.mirrors && connection.era === 'modern' ? headersFor(record, input) : undefined,
    }
    if (connection.era === 'legacy' && may && (relay.task || takesTasks(relay.clientCapabilities))) {
      const created = await request('tools/call', { ...params, task: relay.task ?? {} }, how, via)
      if (isRecord(created['task'])) return started(newerTask(created['task']), via)
      return finished(record, created)
    }
    const result = onlyAsTask(record, connection)
      ? await callAsTask(
          params,
          (method, own) => request(method, own, how, via),
          (method, own) =>
            void connection
              .request(method, own, { timeoutMs: SHORT_MS })
              .catch((error: unknown) => log.debug(`${method}: ${messageOf(error)}`)),
        )
      : await request('tools/call', params, how, via)
    const type = result['resultType']
    if (type === 'input_required') return { kind: 'input_required', result }
    // Who asks for it later is not known here.
    if (type === 'task' && ownLogins)
      throw new PegboardError(
        'E_UPSTREAM_PROTOCOL',
        `${id} answered with a task, which only one of its logins may see.`,
      )
    if (type === 'task' && takesTasks(how.relay.clientCapabilities) && typeof result['taskId'] === 'string')
      return started(result, via)
    return finished(record, result)
  }

  /** Each process says anew what its tools are: what was approved is what another one said. */
  function checkSame(via: Link, record: ToolRecord): void {
    const listed = via === link ? undefined : instances.definition(via, record.name)
    if (listed === undefined || listed === record.text) return
    host.changed()
    throw new PegboardError(
      'E_TOOL_CHANGED',
      `${id} describes ${record.name} in another way than it did when it was approved.`,
      {
        hint: 'Tell the person who runs Pegboard: `pegboard review` shows what changed.',
      },
    )
  }

  /** A task says which server it is of, for whoever asks for it later. */
  function started(task: Json, via: Link): ToolResult {
    openTasks.saw(task)
    instances.began(String(task['taskId']), via)
    return { kind: 'mcp', result: { ...task, resultType: 'task', taskId: `${module}:${task['taskId']}` } }
  }

  function finished(record: ToolRecord, result: Json): ToolResult {
    const type = result['resultType']
    if (type !== undefined && type !== 'complete')
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with a result of an unknown type.`)
    // Bytes were looked at when they came.
    const fit = rawBytes(result) && 'content' in result && isFlag(result['isError']) ? result : fitted(result)
    host.remember(fit)
    return { kind: 'mcp', result: withCheckedOutput(record, fit) }
  }

  /** What every client can read: content is there, and `isError` is a boolean if it is anything. */
  function fitted(result: Json): Json {
    const { content = [], isError } = result
    if (!isContent(content))
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with content that no client can read.`)
    if (!isFlag(isError))
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered without saying whether it worked.`)
    return content === result['content'] ? result : { ...result, content }
  }

  return { by, used, request, call }
}

/** The server let us in before, and does not any more. A scope that is missing for one call says nothing of the others. */
function loginWanted(error: unknown): string | undefined {
  if (!isPegboardError(error) || error.code !== 'E_AUTH_REQUIRED') return undefined
  return isPegboardError(error.cause) && error.cause.data === undefined ? error.cause.message : undefined
}

const onlyAsTask = ({ text }: ToolRecord, { era, capabilities }: Connection): boolean =>
  era === 'legacy' && runsTasks(capabilities) && text.includes('"taskSupport":"required"')

const refuse = (): Promise<never> =>
  Promise.reject(new ProtocolFailure(-32601, 'This is not passed on to servers where everyone logs in for themselves'))

/** What a client says when it asks again. */
export const retryOf = ({ inputResponses, requestState }: Relay): Json => ({
  ...(inputResponses === undefined ? {} : { inputResponses }),
  ...(requestState === undefined ? {} : { requestState }),
})

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
