import type { Endpoints } from '../catalog/catalog.ts'
import type { Caller } from '../core/context.ts'
import { isOwnTask, OWN } from '../exec/task-requests.ts'
import { holderOf } from './caller.ts'
import type { ServerHost } from './host.ts'
import { askedBy, inspected } from './inspected.ts'
import { DONE } from './task-book.ts'
import { endpointsAt } from './tasks-elsewhere.ts'

/** A task and who answers for it. */
export interface FoundTask {
  readonly owner: string
  readonly id: string
  /** The process that began it, where that is another one. */
  readonly at?: string
  /** Absent while its server is not there for this caller. */
  readonly endpoints: Pick<Endpoints, 'request'> | undefined
}

/** What a caller means by the name of a task: one of ours by its id, one of a server by a name of ours. */
export function findTask(host: ServerHost, caller: Caller, name: unknown): FoundTask | undefined {
  if (isOwnTask(name)) return { owner: OWN, id: name, endpoints: host.ownTasks(caller) }
  const found = host.resumes.findTask(holderOf(caller), name)
  if (!found) return undefined
  const { owner, id, at } = found
  const seen = host.view(caller).owners.find((one) => one.id === owner)
  const { elsewhere } = host
  // It holds what the call gave, which is looked at like the result of any call.
  const told = (endpoints: FoundTask['endpoints']): FoundTask['endpoints'] =>
    endpoints && {
      request: (method, params, relay, signal) => {
        const answer = endpoints.request(method, params, askedBy(host, caller, owner, relay), signal)
        return inspected(host, caller, owner, answer)
      },
    }
  if (at === undefined || !elsewhere) return { owner, id, endpoints: told(seen?.endpoints) }
  const reachable = seen !== undefined || owner === DONE
  return { owner, id, at, endpoints: reachable ? told(endpointsAt(elsewhere, at, owner, seen?.endpoints)) : undefined }
}
