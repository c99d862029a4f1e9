import { randomUUID } from 'node:crypto'
import { linkAbort } from '../core/abort.ts'
import { createDeferred } from '../core/deferred.ts'
import { messageOf } from '../core/errors.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import { acceptsTasks, TASKS } from '../core/task-protocol.ts'
import { noRelay, type Relay, type Tool } from '../core/tool.ts'
import type { McpResult } from '../core/tool-result.ts'
import type { Task } from '../exec/background-task.ts'
import { OWN, toWireTask } from '../exec/task-requests.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { createBackgroundAnswer } from '../meta/background-tools.ts'
import { RUNNERS } from '../meta/surface.ts'
import { toClientResult } from './mcp-results.ts'
import type { CallHost } from './server-host.ts'

/** Grace period before a call of a long-running tool becomes a task, in milliseconds. */
const SHORT_MS = 50

/** Whether a call may become a background task. If so, use `callOrTask`. */
export const mayBecomeTask = (host: CallHost, { relay = noRelay, caller }: CallRequest): boolean =>
  host.autoBackgroundMs > 0 || relay.task !== undefined || caller.era === 'modern'

/**
 * Calls a tool. The call becomes a task if its tool runs long and the client supports tasks, if the tool asks for it, or
 * after `execution.autoBackgroundAfterMs`.
 * @throws ProtocolFailure -32021 for a tool that only runs as a task
 */
export async function callOrTask(host: CallHost, request: CallRequest): Promise<McpResult> {
  const { relay = noRelay, caller } = request
  // Meta-tools that run no other tool never take long.
  if (host.surface.metaNames.includes(request.name) && !RUNNERS.has(request.name))
    return toClientResult(await host.surface.call(request), host, request)
  const found = host.view(caller).resolve(request.name)
  const tool = found.kind === 'found' && found.tool.tool.origin === 'module' ? found.tool.tool : undefined
  const supportsTasks = acceptsTasks(relay.clientCapabilities) || relay.task !== undefined
  if (tool?.task === 'required' && !supportsTasks && caller.era === 'modern')
    throw new ProtocolFailure(-32021, `${tool.id} runs only as a task, and the client does not support tasks`, {
      requiredCapabilities: { extensions: { [TASKS]: {} } },
    })
  const asTask = supportsTasks && tool?.task !== undefined
  const afterMs = asTask && !tool?.asksFirst ? SHORT_MS : tool?.noBackground ? 0 : host.autoBackgroundMs
  if (!asTask && afterMs === 0) return toClientResult(await host.surface.call(request), host, request)

  const abort = new AbortController()
  const unlinks = [request.abort?.signal, request.signal].map((source) => linkAbort(source, abort))
  let ask = relay.request
  const adoption = createDeferred<void>()
  const escalation = createDeferred<undefined>()
  const escalate = (): void => escalation.resolve(undefined)
  const { task: _wanted, ...plain } = relay
  const taskRelay: Relay = asTask
    ? {
        ...plain,
        async request(method, params, signal) {
          // The question belongs to the task, which the client must know first.
          if (!tool?.asksFirst) {
            escalate()
            await adoption.promise
          }
          return ask ? ask(method, params, signal) : refuse(method)
        },
      }
    : relay
  const { abort: _abort, signal: _signal, ...requestFields } = request
  // A task that is restarted keeps the id of its first run.
  const call = { callId: randomUUID(), ...requestFields }
  const work = host.surface.call({ ...call, abort, relay: taskRelay, onBackground: escalate })
  const cancel = afterMs > 0 ? host.clock.after(afterMs, escalate) : undefined
  try {
    const done = await Promise.race([work, escalation.promise])
    if (done) return toClientResult(done, host, request)
    const task = await adopt()
    if (task)
      return asTask ? toTaskResult(task, host.taskTtlMs) : toClientResult(createBackgroundAnswer(task), host, request)
    // The limit of tasks is reached, so the client waits.
    adoption.resolve()
    return toClientResult(await work, host, request)
  } finally {
    cancel?.()
    for (const unlink of unlinks) unlink()
  }

  function adopt(): Promise<Task | undefined> {
    const taskTool: Pick<Tool, 'id' | 'idempotent'> = tool ?? { id: request.name, idempotent: false }
    const runningCall = {
      work,
      abort,
      redirectQuestions(next: NonNullable<Relay['request']>) {
        ask = next
        adoption.resolve()
      },
    }
    return host.tasksHere.adopt(call, taskTool, runningCall).catch((error: unknown) => {
      host.log.debug('a call could not become a task', { tool: taskTool.id, error: messageOf(error) })
      return undefined
    })
  }
}

const refuse = (method: string): Promise<never> =>
  Promise.reject(new ProtocolFailure(-32603, `${method} is not possible here`))

/** The task without its open questions: here they would look like questions of the call. */
function toTaskResult(task: Task, ttlMs: number): McpResult {
  const { inputRequests, status, ...taskFields } = toWireTask(task, ttlMs)
  return {
    ...taskFields,
    status: inputRequests === undefined ? status : 'working',
    resultType: 'task',
    taskId: `${OWN}:${task.id}`,
  }
}
