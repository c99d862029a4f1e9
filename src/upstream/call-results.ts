import { PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { rawBytes } from '../core/raw-result.ts'
import { acceptsTasks } from '../core/task-protocol.ts'
import type { Relay, RequestOwner } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { isContent, withoutOwnSchemes } from './content-blocks.ts'
import { withCheckedOutput } from './output-check.ts'
import type { ReconnectingLink } from './reconnecting-link.ts'
import type { CallsHost } from './server-calls.ts'
import { removeTaskId } from './server-tasks.ts'
import type { ToolRecord } from './tool-definition.ts'

type McpAnswer = Extract<ToolResult, { kind: 'mcp' }>

/** Converts what one server answers to `tools/call` to results for clients. */
export function createCallResults({ id, module, instances, access, openTasks, remember }: CallsHost) {
  /** What the client gets: a question, a task, or the result of the tool. @throws PegboardError E_UPSTREAM_PROTOCOL */
  function toCallResult(
    answer: Json,
    record: ToolRecord,
    { clientCapabilities }: Relay,
    via: ReconnectingLink,
    who: RequestOwner,
  ): ToolResult {
    const { resultType, taskId } = answer
    if (resultType === 'input_required') return { kind: 'input_required', result: answer }
    // With a login per principal, the owner of later task requests is unknown.
    if (resultType === 'task' && access)
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} returned a task that belongs to another login.`)
    if (resultType === 'task' && acceptsTasks(clientCapabilities) && typeof taskId === 'string')
      return toTaskResult(answer, via)
    const result = toToolResult(answer, record)
    return instances.takeStopped(who) ? warnOfLostState(result) : result
  }

  /** The task in the format of the extension, with the server in its id for later requests. */
  function toTaskResult(task: Json, via: ReconnectingLink): ToolResult {
    const taskId = instances.nameTask(String(task['taskId']), via)
    openTasks.record({ ...task, taskId })
    return { kind: 'mcp', result: { ...task, resultType: 'task', taskId: `${module}:${taskId}` } }
  }

  /** The result of the tool. @throws PegboardError E_UPSTREAM_PROTOCOL if clients cannot read it */
  function toToolResult(answer: Json, record: ToolRecord): McpAnswer {
    const result = removeTaskId(answer)
    const type = result['resultType']
    if (type !== undefined && type !== 'complete')
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with a result of an unknown type.`)
    // Raw results were scanned on arrival.
    const isReadable = rawBytes(result) && 'content' in result && isFlag(result['isError'])
    const readable = withoutOwnSchemes(id, isReadable ? result : complete(result))
    remember(readable)
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

  function warnOfLostState({ result }: McpAnswer): McpAnswer {
    const text = `Warning: ${id} was stopped because it was idle, and has started again. What earlier calls left there, such as an open page, is gone.`
    return { kind: 'mcp', result: { ...result, content: [...(result.content ?? []), { type: 'text', text }] } }
  }

  return { toCallResult, toTaskResult, toToolResult }
}

const isFlag = (value: unknown): boolean => value === undefined || typeof value === 'boolean'
