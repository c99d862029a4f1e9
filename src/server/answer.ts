import { randomUUID } from 'node:crypto'
import type { Caller } from '../core/context.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import { sizeOf } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import { type McpResult, WITHHELD } from '../core/result.ts'
import { OWN_META } from '../core/sanitize.ts'
import { olderTask } from '../core/tasks.ts'
import { noRelay, type Relay } from '../core/tool.ts'
import type { CallRequest } from '../exec/call.ts'
import { OWN } from '../exec/task-requests.ts'
import { bareName } from '../meta/execute_tool.ts'
import { META_NAMES } from '../meta/surface.ts'
import { holderOf } from './caller.ts'
import { callOrTask, mayEscalate } from './escalate.ts'
import type { ServerHost } from './host.ts'
import type { LaneOptions } from './lane.ts'
import { toldOfCall } from './observed.ts'
import type { Turn } from './park.ts'
import { DONE } from './task-book.ts'
import { toErrorResult, toMcpResult } from './wire.ts'

const INVALID_PARAMS = -32602
const INTERNAL = -32603
const NO_RESOURCE = -32002

/**
 * Calls a tool and answers in MCP terms: every refusal is a result the model can read.
 * @throws ProtocolFailure only for what a client itself must act on
 */
export function callTool(host: ServerHost, request: CallRequest): Promise<McpResult> {
  const { observer } = host
  return observer ? toldOfCall(observer, host, request, () => called(host, request)) : called(host, request)
}

async function called(host: ServerHost, request: CallRequest): Promise<McpResult> {
  const { relay = noRelay } = request
  const { era } = request.caller
  const principal = holderOf(request.caller)
  const { signal, onProgress } = request
  const params = { name: request.name, arguments: request.input ?? {} }
  try {
    const result = await host.resumes.run(
      { principal, era, method: 'tools/call', params, relay, signal, onProgress },
      async (turn) => {
        const asked = turn.relay === request.relay ? request : { ...request, ...given(turn) }
        return mayEscalate(host, asked)
          ? callOrTask(host, asked)
          : toMcpResult(await host.surface.call(asked), host.files, request.caller)
      },
    )
    const { maxResultBytes } = host.view(request.caller).limits
    if (maxResultBytes !== undefined) checkTaken(request, result, maxResultBytes)
    const own = named(host, request, readable(host, request, result))
    const told = host.notices(request.caller)
    return told || host.inbox.has(request.caller) ? await withNotices(host, request, own, told) : own
  } catch (error) {
    if (isProtocolFailure(error)) throw toFailure(error, era)
    if (!isPegboardError(error)) return toErrorResult(unsayable(host, request, error), promised(host, request))
    // Who waits for a task has no use for a result.
    if (relay.task !== undefined) throw toFailure(isProtocolFailure(error.cause) ? error.cause : error, era)
    if (isProtocolFailure(error.cause) && (relay.requestState !== undefined || isRelayed(error.cause, request)))
      throw toFailure(error.cause, era)
    return toErrorResult(error, promised(host, request))
  }
}

/** More would bury the result they come with. */
const MAX_NOTICES = 20

/** With the lines its caller has not heard yet: most clients show a model nothing else that nobody asked for. */
async function withNotices(
  host: ServerHost,
  { caller }: CallRequest,
  result: McpResult,
  told: ReturnType<ServerHost['notices']>,
): Promise<McpResult> {
  if (result.resultType !== undefined || !Array.isArray(result.content)) return result
  const lines = [...(await host.inbox.take(caller, MAX_NOTICES)), ...((await told?.()) ?? [])]
  if (lines.length === 0) return result
  return {
    ...result,
    content: [...result.content, ...lines.map(noticeBlock)],
  }
}

/** Marked in `_meta`, which no server can do: that key is taken out of all that servers send. */
const noticeBlock = (line: string) => ({
  type: 'text',
  text: `[NOTICE] ${line}`,
  _meta: { [`${OWN_META}notice`]: true },
})

/**
 * What is too long for a client is refused, not cut: half of a JSON text or of an image is neither.
 * @throws PegboardError E_TOO_LARGE
 */
function checkTaken({ name, caller }: CallRequest, result: McpResult, maxBytes: number): void {
  const bytes = result.resultType === undefined ? sizeOf(result) : 0
  if (bytes <= maxBytes) return
  const client = caller.client?.name.slice(0, 40) ?? '<name>'
  throw new PegboardError(
    'E_TOO_LARGE',
    `${name.slice(0, 80)} answered with ${bytes} bytes; this client takes up to ${maxBytes}.`,
    { hint: `Ask for a part, or raise clients."${client}".maxResultBytes if it takes more.` },
  )
}

const given = ({ relay, signal, onProgress }: Turn) => ({
  relay,
  ...(signal ? { signal } : {}),
  ...(onProgress ? { onProgress } : {}),
})

/** Clients that know the output schema refuse a result without the structured part, unless it is a failure. */
const readable = (host: ServerHost, request: CallRequest, result: McpResult): McpResult =>
  !('structuredContent' in result) && result._meta?.[WITHHELD] !== undefined && promised(host, request)
    ? { ...result, isError: true }
    : result

/** Everything else was caught where the tool ran: what is left is a result that JSON cannot carry. */
function unsayable(host: ServerHost, request: CallRequest, error: unknown): PegboardError {
  const failure = new PegboardError('E_INTERNAL', `The result of ${request.name.slice(0, 80)} cannot be sent as JSON.`)
  failure.correlationId = randomUUID()
  host.log.error('a result could not be sent', { tool: request.name, callId: failure.correlationId, error })
  return failure
}

/** Whether the client may know an output schema of the tool; also when the tool has gone from its list since. */
function promised(host: ServerHost, { name, caller }: CallRequest): boolean {
  const { byName, byId } = host.catalog.snapshot()
  const tool = byName.get(name) ?? byId.get(name)
  if (tool) {
    // One that it may not know of is answered like one that is not there. Most say nothing of their output: nobody is asked how
    // tools are shown then, which would be remembered of a session that ended meanwhile.
    return (
      tool.output !== undefined &&
      host.exposure(caller).mode !== 'discovery' &&
      host.view(caller).hidden.get(tool.id)?.kind !== 'denied'
    )
  }
  if (host.exposure(caller).mode === 'discovery') return false
  const found = host.view(caller).resolve(name)
  return found.kind === 'found' && found.tool.tool.output !== undefined
}

/** An upstream's own error is the answer to a call of its tool. A meta-tool answers for itself, with a result. */
function isRelayed(failure: ProtocolFailure, { name, relay = noRelay }: CallRequest): boolean {
  const { code } = failure
  if (code === -32042) return true
  if (code === -32021) return forClient(failure, relay)
  // What a request lacks on its way to the server is our matter.
  if (code === -32020 || code === -32022) return false
  return !META.has(bareName(name))
}

const META: ReadonlySet<string> = new Set(META_NAMES)

/** A capability only the client can declare, and has not. */
function forClient({ data }: ProtocolFailure, { clientCapabilities }: Relay): boolean {
  const required = (data as { requiredCapabilities?: unknown } | undefined)?.requiredCapabilities
  return !isRecord(required) || !covers(clientCapabilities, required)
}

/** What was declared but not passed on is between us and the server: the operator's `relay` setting. */
function covers(declared: Readonly<Record<string, unknown>>, required: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(required).every(([key, wanted]) => {
    const has = declared[key]
    return isRecord(has) ? !isRecord(wanted) || covers(has, wanted) : has !== undefined
  })
}

/** A task as its principal is told of it: by a name of ours, and in the words of its revision. */
function named(host: ServerHost, { caller, relay }: CallRequest, result: McpResult): McpResult {
  const { session } = caller
  const holder = holderOf(caller)
  const wanted = relay?.task
  if (result.resultType !== 'task') {
    if (wanted === undefined || result.resultType !== undefined) return result
    // Its server was done at once, but this client waits for a task.
    const task = host.tasks.keep(holder, result, wanted['ttl'])
    return { task: { ...olderTask(task), taskId: host.resumes.nameTask(holder, DONE, String(task['taskId'])) } }
  }
  const [owner = '', ...rest] = String(result.taskId).split(':')
  const id = rest.join(':')
  const name = owner === OWN ? id : host.resumes.nameTask(holder, owner, id)
  host.tasks.began({ holder, session, owner, id, name }, result['ttlMs'])
  return wanted === undefined ? { ...result, taskId: name } : { task: { ...olderTask(result), taskId: name } }
}

/** An error of one hop as the next hop may see it: code, message and data stay. @param era of the client */
export function toFailure(error: unknown, era: Caller['era'] = 'modern'): ProtocolFailure {
  if (isPegboardError(error))
    return new ProtocolFailure(
      error.code === 'E_NOT_FOUND' || error.code === 'E_VALIDATION' ? INVALID_PARAMS : INTERNAL,
      `${error.code}: ${error.message}`,
    )
  if (!isProtocolFailure(error)) return new ProtocolFailure(INTERNAL, 'Internal error')
  const { code, data } = error
  // Some servers put their own prefix on a message that gets one anyway.
  const message = error.message.replace(/^(MCP error -?\d+: )+/, '')
  // The two revisions have different codes for a resource that is not there.
  if (code === NO_RESOURCE && era === 'modern') return new ProtocolFailure(INVALID_PARAMS, message, data)
  // No client of 2025 knows this one.
  if (code === -32021 && era === 'legacy') return new ProtocolFailure(INTERNAL, message, data)
  if (code === -32020 || code === -32022)
    return new ProtocolFailure(INTERNAL, `The server behind this could not be spoken to: ${message}`)
  return new ProtocolFailure(code, message, data)
}

export const noResource = (uri: string, era: Caller['era']): ProtocolFailure =>
  new ProtocolFailure(era === 'legacy' ? NO_RESOURCE : INVALID_PARAMS, `Resource ${uri.slice(0, 200)} not found`, {
    uri,
  })
export const noTask = new ProtocolFailure(INVALID_PARAMS, 'There is no such task')
export const noPrompt = (name: string): ProtocolFailure =>
  new ProtocolFailure(INVALID_PARAMS, `Prompt ${name.slice(0, 100)} not found`)

/** `callTool` as a lane makes its calls. */
export const laneCall =
  (host: ServerHost): LaneOptions['call'] =>
  ({ name, input, caller, abort, relay, progressToken, sendProgress }) =>
    callTool(
      host,
      progressToken === undefined
        ? { name, input, caller, abort, relay }
        : { name, input, caller, abort, relay, onProgress: progressTo(progressToken, sendProgress) },
    )

/** Strictly increasing, as the protocol demands of a sender, whatever the tool reports. */
export function progressTo(
  token: string | number,
  send: (params: Readonly<Record<string, unknown>>) => void,
): NonNullable<CallRequest['onProgress']> {
  let last = Number.NEGATIVE_INFINITY
  return (progress, total, message) => {
    if (!(progress > last)) return
    last = progress
    send({
      progressToken: token,
      progress,
      ...(total === undefined ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    })
  }
}
