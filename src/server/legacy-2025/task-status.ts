import type { Caller } from '../../core/caller.ts'
import type { Json } from '../../core/is-record.ts'
import { olderTask } from '../../core/task-protocol.ts'
import { holderOf } from '../identity.ts'
import { inspectNotification } from '../inspect-answers.ts'
import type { CallHost } from '../server-host.ts'

/** The parameters of `notifications/tasks/status` for a session, or undefined where the task is not its own. */
export function taskStatus(
  host: CallHost,
  session: string | undefined,
  callers: readonly Caller[],
  owner: string,
  task: Json,
): Json | undefined {
  const [known, ...others] = host.tasks.find(owner, String(task['taskId']))
  // If a server gave one id to several tasks, the owner is unknown.
  if (!known || others.length > 0 || known.session !== session) return undefined
  const caller = callers.find((one) => holderOf(one) === known.holder)
  return caller && inspectNotification(host, caller, { ...olderTask(task), taskId: known.name }, owner)
}
