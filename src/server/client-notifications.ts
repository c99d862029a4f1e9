import type { Caller } from '../core/caller.ts'
import type { Json } from '../core/is-record.ts'
import { listChanged } from '../core/list-kinds.ts'
import { toLegacyTask } from '../core/task-protocol.ts'
import { holderOf } from './identity.ts'
import { inspectNotification } from './inspect-answers.ts'
import type { ListNotifier } from './list-notifier.ts'
import type { RequestBuilder } from './request-builder.ts'
import type { CallHost, ServerHost } from './server-host.ts'

/**
 * Sends the client of a connection what belongs to none of its requests: changed lists, and messages of upstream servers.
 * @returns a function that stops this
 */
export function notifyClient(
  host: ServerHost,
  lists: ListNotifier,
  requests: RequestBuilder,
  notify: (method: string, params?: Json) => void,
): () => void {
  const { connection, callers } = requests
  const isLegacy = connection.era === 'legacy'
  const stops = [
    lists.add({ callers, notify, listChanged: (kind) => notify(listChanged(kind)) }),
    host.onUpstream({
      log(params, owner, who) {
        const message = requests.isFor(who) ? requests.logMessage(params, owner) : undefined
        if (message) notify('notifications/message', message)
      },
      resourceUpdated(uri, isKnown, who) {
        if (requests.isFor(who) && subscribers(uri).some((caller) => isKnown(host.view(caller))))
          notify('notifications/resources/updated', { uri })
      },
      task(owner, task) {
        const params = isLegacy ? taskStatus(host, requests, owner, task) : undefined
        if (params) notify('notifications/tasks/status', params)
      },
    }),
  ]
  // The SDK knows which URIs a 2026 client is subscribed to, and drops the others.
  function subscribers(uri: string): readonly Caller[] {
    const caller = requests.subscribed.get(uri)
    return caller ? [caller] : isLegacy ? [] : callers()
  }
  return () => {
    for (const stop of stops) stop()
  }
}

/** The parameters of `notifications/tasks/status` for a session, or undefined where the task is not its own. */
function taskStatus(host: CallHost, requests: RequestBuilder, owner: string, task: Json): Json | undefined {
  const [startedTask, ...others] = host.tasks.find(owner, String(task['taskId']))
  // If a server gave one id to several tasks, the owner is unknown.
  if (!startedTask || others.length > 0 || startedTask.session !== requests.connection.session) return undefined
  const caller = requests.callers().find((one) => holderOf(one) === startedTask.holder)
  return caller && inspectNotification(host, caller, { ...toLegacyTask(task), taskId: startedTask.name }, owner)
}
