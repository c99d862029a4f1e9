import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import { createEnding } from '../core/ending.ts'
import type { Message } from '../core/jsonrpc.ts'
import { limited } from '../core/limit.ts'
import { isOver, takesTasks } from '../core/tasks.ts'
import { relayOf } from '../core/tool.ts'
import { findTask } from './find-task.ts'
import type { ServerHost } from './host.ts'

type Json = Readonly<Record<string, unknown>>

/** What a `subscriptions/listen` wants to hear of tasks, from a client that takes them. */
export interface WantedTasks {
  readonly names: readonly string[]
  readonly clientCapabilities: Json
  readonly subscription: unknown
}

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'
const NOWHERE = 'pegboard:nowhere'
const MAX_FOLLOWED = 50
const EVERY_MS = { least: 250, usual: 2_000, most: 30_000 } as const
const SHORT_MS = 10_000

export function tasksWanted({ id, method, params }: Message): WantedTasks | undefined {
  if (method !== 'subscriptions/listen') return undefined
  const wanted = params?.['notifications'] as { taskIds?: unknown } | undefined
  const declared = (params?.['_meta'] as Json | undefined)?.[CAPABILITIES]
  if (!Array.isArray(wanted?.taskIds) || typeof declared !== 'object' || declared === null) return undefined
  const clientCapabilities = declared as Json
  if (!takesTasks(clientCapabilities)) return undefined
  const names = wanted.taskIds.filter((name): name is string => typeof name === 'string').slice(0, MAX_FOLLOWED)
  return names.length > 0 ? { names, clientCapabilities, subscription: id } : undefined
}

/** The same message for the SDK, which ends a subscription to nothing that it knows: with a resource nobody has. */
export function holdOpen(message: Message): Message {
  const { notifications } = (message.params ?? {}) as { notifications?: Json }
  const uris = notifications?.['resourceSubscriptions']
  const resourceSubscriptions = [...(Array.isArray(uris) ? uris : []), NOWHERE]
  return { ...message, params: { ...message.params, notifications: { ...notifications, resourceSubscriptions } } }
}

/** The acknowledgement of this subscription with its tasks in it, or `undefined` for any other message. */
export function acknowledging(message: object, { names, subscription }: WantedTasks): object | undefined {
  const { method, params } = message as Message
  if (method !== ACKNOWLEDGED || (params?.['_meta'] as Json | undefined)?.[SUBSCRIPTION] !== subscription) return
  const { resourceSubscriptions, ...kinds } = (params?.['notifications'] ?? {}) as Json
  const uris = Array.isArray(resourceSubscriptions) ? resourceSubscriptions.filter((uri) => uri !== NOWHERE) : []
  const notifications = { ...kinds, ...(uris.length > 0 ? { resourceSubscriptions: uris } : {}), taskIds: names }
  return { ...message, params: { ...params, notifications } }
}

/**
 * Tells of every change of these tasks, as far as they are the caller's, until they are over. Their servers are asked now
 * and then, which servers of either era answer; what a client hears is what `tasks/get` would tell it.
 * @returns how to stop
 */
export function followTasks(
  host: ServerHost,
  clock: Clock,
  caller: Caller,
  { names, clientCapabilities, subscription }: WantedTasks,
  send: (message: object) => void,
): () => void {
  const ending = createEnding()
  const timers = new Map<string, () => void>()

  async function look(name: string, before: string): Promise<void> {
    const found = findTask(host, caller, name)
    if (!found?.endpoints) return
    const limit = limited(ending, SHORT_MS)
    const {
      resultType: _theirs,
      _meta,
      ...task
    } = await found.endpoints
      .request('tasks/get', { taskId: found.id }, { ...relayOf(caller), clientCapabilities }, limit.signal)
      .finally(limit.free)
    if (ending.aborted) return
    const now = JSON.stringify(task)
    const params = { ...task, taskId: name, _meta: { [SUBSCRIPTION]: subscription } }
    if (now !== before) send({ jsonrpc: '2.0', method: 'notifications/tasks', params })
    if (isOver(task['status'])) return
    const { pollIntervalMs } = task
    const everyMs = typeof pollIntervalMs === 'number' ? pollIntervalMs : EVERY_MS.usual
    const waitMs = Math.min(Math.max(everyMs, EVERY_MS.least), EVERY_MS.most)
    timers.set(
      name,
      clock.after(waitMs, () => begin(name, now)),
    )
  }

  function begin(name: string, before: string): void {
    look(name, before).catch((error) => {
      host.log.debug('a task is not followed any more', { error })
    })
  }

  for (const name of names) begin(name, '')
  return () => {
    ending.abort(undefined)
    for (const cancel of timers.values()) cancel()
  }
}
