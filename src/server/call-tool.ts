import { randomUUID } from 'node:crypto'
import type { Caller } from '../core/caller.ts'
import { isPegboardError, joinSentences, PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { sizeOf } from '../core/raw-result.ts'
import { toLegacyTask } from '../core/task-protocol.ts'
import { noRelay, type Relay } from '../core/tool.ts'
import { type McpResult, noticeBlock, WITHHELD } from '../core/tool-result.ts'
import { OWN } from '../exec/task-requests.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { bareName } from '../meta/execute_tool.ts'
import { META_NAMES } from '../meta/surface.ts'
import { callOrTask, mayBecomeTask } from './call-or-task.ts'
import { holderOf } from './identity.ts'
import { hasOutputSchema, toClientResult, toErrorResult } from './mcp-results.ts'
import type { RequestContext } from './parked-questions.ts'
import { recordCall } from './record-usage.ts'
import type { CallHost } from './server-host.ts'
import { DONE } from './task-book.ts'
import { traceToolCall } from './traced-requests.ts'

const INVALID_PARAMS = -32602
const INTERNAL = -32603
const NO_RESOURCE = -32002
/** Unlike a result, an error cannot be kept and read later. */
const MAX_DATA = 64 * 1024

/**
 * Calls a tool. Refusals are results with `isError`, so that the model can read them.
 * @throws ProtocolFailure for an unknown tool, and for errors that the client itself must handle
 */
export function callTool(host: CallHost, request: CallRequest): Promise<McpResult> {
  const { observer } = host
  return observer ? traceToolCall(observer, host, request, () => runCall(host, request)) : runCall(host, request)
}

async function runCall(host: CallHost, request: CallRequest): Promise<McpResult> {
  const { relay = noRelay } = request
  const { era } = request.caller
  const principal = holderOf(request.caller)
  const { signal, onProgress } = request
  const params = { name: request.name, arguments: request.input ?? {} }
  try {
    const resumable = { principal, era, method: 'tools/call', params, relay, signal, onProgress }
    const result = await host.resumes.run(resumable, async (context) => {
      const resumedRequest = context.relay === request.relay ? request : { ...request, ...createCallOptions(context) }
      if (mayBecomeTask(host, resumedRequest)) return await callOrTask(host, resumedRequest)
      return toClientResult(await host.surface.call(resumedRequest), host, request)
    })
    const whole = limitResult(host, request, result)
    const fitted = await host.surface.fit(request, whole, () => hasOutputSchema(host, request))
    recordCall(host, request, fitted, whole)
    const renamed = renameTask(host, request, fitted)
    const readNotices = host.notices(request.caller)
    return readNotices || host.inbox.has(request.caller)
      ? await withNotices(host, request, renamed, readNotices)
      : renamed
  } catch (error) {
    const fail = (failure: ProtocolFailure): ProtocolFailure => {
      recordCall(host, request, { content: [{ type: 'text', text: failure.message }], isError: true })
      return failure
    }
    if (isProtocolFailure(error)) throw fail(toFailure(error, era))
    const refuse = async (refusal: PegboardError): Promise<McpResult> => {
      const { reads } = host.view(request.caller).limits
      const whole = toErrorResult(refusal, reads !== undefined || hasOutputSchema(host, request))
      const fitted = await host.surface.fit(request, whole, () => false)
      recordCall(host, request, fitted, whole)
      return fitted
    }
    if (!isPegboardError(error)) return await refuse(createJsonError(host, request, error))
    // Only for the tool that the client named: a tool may have called another unknown one.
    if (error.unknownTool === request.name) throw fail(toFailure(error, era))
    // A client that waits for a task cannot use a result.
    if (relay.task !== undefined) throw fail(toFailure(isProtocolFailure(error.cause) ? error.cause : error, era))
    if (isProtocolFailure(error.cause) && (relay.requestState !== undefined || isRelayed(error.cause, request)))
      throw fail(toFailure(error.cause, era))
    return await refuse(error)
  }
}

const MAX_NOTICES = 20

/** Adds notices for the caller to a result: most clients show a model nothing else that it did not ask for. */
async function withNotices(
  host: CallHost,
  { caller }: CallRequest,
  result: McpResult,
  readNotices: ReturnType<CallHost['notices']>,
): Promise<McpResult> {
  if (result.resultType !== undefined || !Array.isArray(result.content)) return result
  const lines = [...(await host.inbox.take(caller, MAX_NOTICES)), ...((await readNotices?.()) ?? [])]
  return lines.length === 0 ? result : { ...result, content: [...result.content, ...lines.map(noticeBlock)] }
}

const createCallOptions = ({ relay, signal, onProgress }: RequestContext) => ({
  relay,
  ...omitUndefined({ signal, onProgress }),
})

/** Clients that know the output schema reject a result without structured content, unless it is an error. */
const limitResult = (host: CallHost, request: CallRequest, result: McpResult): McpResult =>
  !('structuredContent' in result) && result._meta?.[WITHHELD] !== undefined && hasOutputSchema(host, request)
    ? { ...result, isError: true }
    : result

/** The error for a result that JSON cannot represent; other errors of a tool were caught where it ran. */
function createJsonError(host: CallHost, request: CallRequest, error: unknown): PegboardError {
  const failure = new PegboardError('E_INTERNAL', `The result of ${request.name.slice(0, 80)} cannot be sent as JSON.`)
  failure.correlationId = randomUUID()
  host.log.error('a result could not be sent', { tool: request.name, callId: failure.correlationId, error })
  return failure
}

/** Whether an error of a server is the answer to the call. Meta-tools answer with a result instead. */
function isRelayed(failure: ProtocolFailure, { name, relay = noRelay }: CallRequest): boolean {
  const { code } = failure
  if (code === -32042) return true
  if (code === -32021) return namesMissingCapability(failure, relay)
  // Headers between Pegboard and the server are wrong, which the client cannot change.
  if (code === -32020 || code === -32022) return false
  return !META_NAMES.includes(bareName(name))
}

/** Whether the error names a capability that the client did not declare. */
function namesMissingCapability({ data }: ProtocolFailure, { clientCapabilities }: Relay): boolean {
  const required = (data as { requiredCapabilities?: unknown } | undefined)?.requiredCapabilities
  return !isRecord(required) || !covers(clientCapabilities, required)
}

/** Whether the client declared all of it. A declared capability can be held back by the operator's `relay` setting. */
function covers(declared: Json, required: Json): boolean {
  return Object.entries(required).every(([key, requiredValue]) => {
    const declaredValue = declared[key]
    return isRecord(declaredValue)
      ? !isRecord(requiredValue) || covers(declaredValue, requiredValue)
      : declaredValue !== undefined
  })
}

/** A task with a name of Pegboard, in the format of the client's revision. */
function renameTask(host: CallHost, { caller, relay }: CallRequest, result: McpResult): McpResult {
  const { session } = caller
  const holder = holderOf(caller)
  const taskOptions = relay?.task
  if (result.resultType !== 'task') {
    if (taskOptions === undefined || result.resultType !== undefined) return result
    // The server finished at once, but this client expects a task.
    const task = host.tasks.keep(holder, result, taskOptions['ttl'])
    return { task: { ...toLegacyTask(task), taskId: host.resumes.nameTask(holder, DONE, String(task['taskId'])) } }
  }
  const [owner = '', ...rest] = String(result.taskId).split(':')
  const id = rest.join(':')
  const name = owner === OWN ? id : host.resumes.nameTask(holder, owner, id)
  host.tasks.add({ holder, session, owner, id, name }, result['ttlMs'])
  return taskOptions === undefined ? { ...result, taskId: name } : { task: { ...toLegacyTask(result), taskId: name } }
}

/** An error as the client may see it: code, message and data stay. @param era protocol era of the client */
export function toFailure(error: unknown, era: Caller['era'] = 'modern'): ProtocolFailure {
  if (isPegboardError(error)) return toProtocolFailure(error)
  if (!isProtocolFailure(error)) return new ProtocolFailure(INTERNAL, 'Internal error')
  const { code } = error
  const size = sizeOf([error.data])
  const data = size > MAX_DATA ? undefined : error.data
  // The client adds this prefix itself.
  const text = error.message.replace(/^(MCP error -?\d+: )+/, '')
  const message = size > MAX_DATA ? `${text} (without its data of ${size} bytes)` : text
  // 2026 has no code of its own for a missing resource.
  if (code === NO_RESOURCE && era === 'modern') return new ProtocolFailure(INVALID_PARAMS, message, data)
  // 2025 clients do not know this code.
  if (code === -32021 && era === 'legacy') return new ProtocolFailure(INTERNAL, message, data)
  if (code === -32020 || code === -32022)
    return new ProtocolFailure(INTERNAL, `The request to the server failed: ${message}`)
  return new ProtocolFailure(code, message, data)
}

/** A refusal as an error, with the same text as in a result. */
function toProtocolFailure(error: PegboardError): ProtocolFailure {
  const { code, class: failureClass = null, message, hint, retryable, retryAfterMs } = error
  // Only a hidden tool has an id: with it, a client could tell a hidden tool from an unknown one.
  const correlationId = error.unknownTool === undefined ? error.correlationId : undefined
  const data = {
    code,
    class: failureClass,
    message,
    hint,
    retryable,
    retryAfterMs,
    ...omitUndefined({ correlationId }),
  }
  const isInvalid = code === 'E_NOT_FOUND' || code === 'E_VALIDATION'
  return new ProtocolFailure(isInvalid ? INVALID_PARAMS : INTERNAL, `${code}: ${joinSentences(message, hint)}`, data)
}

export function noResource(uri: string, era: Caller['era']): ProtocolFailure {
  const code = era === 'legacy' ? NO_RESOURCE : INVALID_PARAMS
  return new ProtocolFailure(code, `Resource ${uri.slice(0, 200)} not found`, { uri })
}
export const noTask = new ProtocolFailure(INVALID_PARAMS, 'There is no such task')
export const noPrompt = (name: string): ProtocolFailure =>
  new ProtocolFailure(INVALID_PARAMS, `Prompt ${name.slice(0, 100)} not found`)
