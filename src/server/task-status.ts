import type { Caller } from '../core/context.ts'
import { olderTask } from '../core/tasks.ts'
import { holderOf } from './caller.ts'
import type { ServerHost } from './host.ts'
import { sayable } from './inspected.ts'

type Json = Readonly<Record<string, unknown>>

/** What a connection of the older era is told of a task that changed, or `undefined` where it is not for it. */
export function taskStatus(
  host: ServerHost,
  { session, callers }: { readonly session: string | undefined; readonly callers: readonly Caller[] },
  owner: string,
  task: Json,
): Json | undefined {
  const known = host.tasks.find(owner, String(task['taskId']))
  const [first] = callers
  if (!known || !first || known.session !== session) return undefined
  if (!callers.some((caller) => holderOf(caller) === known.holder)) return undefined
  return sayable(host, first, { ...olderTask(task), taskId: known.name }, owner)
}
