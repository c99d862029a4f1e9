import { randomUUID } from 'node:crypto'
import { createEnding } from '../core/ending.ts'
import { messageOf } from '../core/errors.ts'
import { ProtocolFailure } from '../core/failure.ts'
import type { McpResult } from '../core/result.ts'
import { TASKS, takesTasks } from '../core/tasks.ts'
import { noRelay, type Relay, type Tool } from '../core/tool.ts'
import type { CallRequest } from '../exec/call.ts'
import type { Task } from '../exec/task.ts'
import { OWN, wireTask } from '../exec/task-requests.ts'
import { putInBackground } from '../meta/background.ts'
import { RUNNERS } from '../meta/surface.ts'
import type { ServerHost } from './host.ts'
import { toMcpResult } from './wire.ts'

/** A tool that takes long may all the same be done at once. */
const SHORT_MS = 50

/** Whether a call may end as a task of ours: then `callOrTask` makes it. */
export const mayEscalate = (host: ServerHost, { relay = noRelay, caller }: CallRequest): boolean =>
  host.autoBackgroundMs > 0 || relay.task !== undefined || caller.era === 'modern'

/**
 * Makes a call that becomes a task when its tool is one that takes long and its client takes tasks, when the tool says so, or
 * when it has taken longer than the operator wants anybody to wait.
 * @throws ProtocolFailure -32021 for a tool that only runs as a task
 */
export async function callOrTask(host: ServerHost, request: CallRequest): Promise<McpResult> {
  const { relay = noRelay, caller } = request
  // Tools about tools that run no other are never long.
  if (host.surface.metaNames.includes(request.name) && !RUNNERS.has(request.name))
    return toMcpResult(await host.surface.call(request), host.files, caller)
  const found = host.view(caller).resolve(request.name)
  const tool = found.kind === 'found' && found.tool.tool.origin === 'module' ? found.tool.tool : undefined
  const wants = takesTasks(relay.clientCapabilities) || relay.task !== undefined
  if (tool?.task === 'required' && !wants && caller.era === 'modern')
    throw new ProtocolFailure(-32021, `${tool.id} only runs as a task, which the client does not take`, {
      requiredCapabilities: { extensions: { [TASKS]: {} } },
    })
  const asTask = wants && tool?.task !== undefined
  const afterMs = asTask && !tool?.asksFirst ? SHORT_MS : tool?.noBackground ? 0 : host.autoBackgroundMs
  if (!asTask && afterMs === 0) return toMcpResult(await host.surface.call(request), host.files, caller)

  const ending = createEnding()
  const forward = (): void => ending.abort(request.abort?.reason ?? request.signal?.reason)
  if (request.abort?.aborted || request.signal?.aborted) forward()
  request.abort?.listen(forward)
  request.signal?.addEventListener('abort', forward, { once: true })
  const free = (): void => {
    request.abort?.unlisten(forward)
    request.signal?.removeEventListener('abort', forward)
  }
  let ask = relay.request
  let adopted: () => void = () => undefined
  const isTask = new Promise<void>((resolve) => {
    adopted = resolve
  })
  let escalate: () => void = () => undefined
  const escalated = new Promise<undefined>((resolve) => {
    escalate = () => resolve(undefined)
  })
  const { task: _wanted, ...plain } = relay
  const switching: Relay = asTask
    ? {
        ...plain,
        async request(method, params, signal) {
          // What a task wants to know is asked by the task.
          if (!tool?.asksFirst) {
            escalate()
            await isTask
          }
          return ask ? ask(method, params, signal) : refuse(method)
        },
      }
    : relay
  const { abort: _abort, signal: _signal, ...given } = request
  // A task that is begun again goes by the name that its first run had.
  const rest = { callId: randomUUID(), ...given }
  const work = host.surface.call({ ...rest, abort: ending, relay: switching, onBackground: escalate })
  const cancel = afterMs > 0 ? host.clock.after(afterMs, escalate) : undefined
  try {
    const done = await Promise.race([work, escalated])
    if (done) return toMcpResult(done, host.files, caller)
    const task = await adopt()
    if (task) return asTask ? created(task, host.taskTtlMs) : toMcpResult(putInBackground(task), host.files, caller)
    // There is no room for one more task: it is waited for after all.
    adopted()
    return toMcpResult(await work, host.files, caller)
  } finally {
    cancel?.()
    free()
  }

  function adopt(): Promise<Task | undefined> {
    const named: Pick<Tool, 'id' | 'idempotent'> = tool ?? { id: request.name, idempotent: false }
    const call = {
      work,
      ending,
      askedBy(next: NonNullable<Relay['request']>) {
        ask = next
        adopted()
      },
    }
    return host.tasksHere.adopt(rest, named, call).catch((error: unknown) => {
      host.log.debug('a call could not become a task', { tool: named.id, error: messageOf(error) })
      return undefined
    })
  }
}

const refuse = (method: string): Promise<never> =>
  Promise.reject(new ProtocolFailure(-32603, `${method} cannot be asked here`))

/** What it asks already is told to whoever looks at it: here it would look like a question of the call. */
function created(task: Task, ttlMs: number): McpResult {
  const { inputRequests, status, ...told } = wireTask(task, ttlMs)
  return {
    ...told,
    status: inputRequests === undefined ? status : 'working',
    resultType: 'task',
    taskId: `${OWN}:${task.id}`,
  }
}
