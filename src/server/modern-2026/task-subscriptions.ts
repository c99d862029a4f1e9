import { abortAfter } from '../../core/abort.ts'
import type { Caller } from '../../core/caller.ts'
import type { Clock } from '../../core/clock.ts'
import { isPegboardError } from '../../core/errors.ts'
import type { Json } from '../../core/is-record.ts'
import type { Message } from '../../core/jsonrpc.ts'
import { isProtocolFailure } from '../../core/protocol-failure.ts'
import { CLIENT_CAPABILITIES, SUBSCRIPTION } from '../../core/protocol-meta.ts'
import { acceptsTasks, isOver } from '../../core/task-protocol.ts'
import { relayOf } from '../../core/tool.ts'
import { findTask } from '../find-task.ts'
import type { CallHost } from '../server-host.ts'

/** The tasks that a `subscriptions/listen` names. */
export interface WantedTasks {
  readonly names: readonly string[]
  readonly clientCapabilities: Json
  readonly subscription: unknown
}

const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'
const PLACEHOLDER = 'pegboard:nowhere'
const MAX_TASKS = 50
const EVERY_MS = { least: 250, usual: 2_000, most: 30_000 } as const
const SHORT_MS = 10_000

export function wantedTasks({ id, method, params }: Message): WantedTasks | undefined {
  if (method !== 'subscriptions/listen') return undefined
  const notifications = params?.['notifications'] as { taskIds?: unknown } | undefined
  const declared = (params?.['_meta'] as Json | undefined)?.[CLIENT_CAPABILITIES]
  if (!Array.isArray(notifications?.taskIds) || typeof declared !== 'object' || declared === null) return undefined
  const clientCapabilities = declared as Json
  if (!acceptsTasks(clientCapabilities)) return undefined
  const names = notifications.taskIds.filter((name): name is string => typeof name === 'string').slice(0, MAX_TASKS)
  return names.length > 0 ? { names, clientCapabilities, subscription: id } : undefined
}

/** The same message with a resource that does not exist: the SDK would end a subscription with tasks alone. */
export function addPlaceholderResource(message: Message): Message {
  const { notifications } = (message.params ?? {}) as { notifications?: Json }
  const uris = notifications?.['resourceSubscriptions']
  const resourceSubscriptions = [...(Array.isArray(uris) ? uris : []), PLACEHOLDER]
  return { ...message, params: { ...message.params, notifications: { ...notifications, resourceSubscriptions } } }
}

/** The acknowledgement of this subscription with its tasks; undefined for any other message. */
export function addTasksToAck(message: object, { names, subscription }: WantedTasks): object | undefined {
  const { method, params } = message as Message
  if (method !== ACKNOWLEDGED || (params?.['_meta'] as Json | undefined)?.[SUBSCRIPTION] !== subscription) return
  const { resourceSubscriptions, ...kinds } = (params?.['notifications'] ?? {}) as Json
  const uris = Array.isArray(resourceSubscriptions) ? resourceSubscriptions.filter((uri) => uri !== PLACEHOLDER) : []
  const notifications = { ...kinds, ...(uris.length > 0 ? { resourceSubscriptions: uris } : {}), taskIds: names }
  return { ...message, params: { ...params, notifications } }
}

const METHOD_NOT_FOUND = -32601
const INVALID_PARAMS = -32602

/** True if the task is gone, or if the caller may not see it: no later poll can succeed. */
function isFinal(error: unknown): boolean {
  if (isProtocolFailure(error)) return error.code === INVALID_PARAMS || error.code === METHOD_NOT_FOUND
  return isPegboardError(error) && !error.retryable
}

/**
 * Sends every change of the caller's tasks until they end. Polls their servers with `tasks/get`, which both eras answer.
 * Repeats a failed poll after 2, 4, 8 … 30 s, unless the error is final.
 * @returns a function that stops this
 */
export function sendTaskChanges(
  host: CallHost,
  clock: Clock,
  caller: Caller,
  { names, clientCapabilities, subscription }: WantedTasks,
  send: (message: object) => void,
): () => void {
  const stop = new AbortController()
  const timers = new Map<string, () => void>()

  async function poll(name: string, lastState: string): Promise<void> {
    const found = findTask(host, caller, name)
    if (!found?.endpoints) return
    const limit = abortAfter(stop.signal, SHORT_MS)
    const relay = { ...relayOf(caller), clientCapabilities }
    const answer = found.endpoints.request('tasks/get', { taskId: found.id }, relay, limit.signal)
    const { resultType: _theirs, _meta, ...task } = await answer.finally(limit.free)
    if (stop.signal.aborted) return
    const state = JSON.stringify(task)
    const params = { ...task, taskId: name, _meta: { [SUBSCRIPTION]: subscription } }
    if (state !== lastState) send({ jsonrpc: '2.0', method: 'notifications/tasks', params })
    if (isOver(task['status'])) return
    const { pollIntervalMs } = task
    const everyMs = typeof pollIntervalMs === 'number' ? pollIntervalMs : EVERY_MS.usual
    const waitMs = Math.min(Math.max(everyMs, EVERY_MS.least), EVERY_MS.most)
    const cancel = clock.after(waitMs, () => begin(name, state))
    timers.set(name, cancel)
  }

  function begin(name: string, lastState: string, failures = 0): void {
    poll(name, lastState).catch((error) => {
      host.log.debug('the state of a task could not be read', { error })
      if (stop.signal.aborted || isFinal(error)) return
      const waitMs = Math.min(EVERY_MS.usual * 2 ** failures, EVERY_MS.most)
      const cancel = clock.after(waitMs, () => begin(name, lastState, failures + 1))
      timers.set(name, cancel)
    })
  }

  for (const name of names) begin(name, '')
  return () => {
    stop.abort()
    for (const cancel of timers.values()) cancel()
  }
}
