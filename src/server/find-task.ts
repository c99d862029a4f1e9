import type { Endpoints } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import type { Json } from '../core/is-record.ts'
import { isOwnTask, OWN } from '../exec/task-requests.ts'
import { noTask } from './call-tool.ts'
import { holderOf } from './identity.ts'
import { createInspectedRelay, inspectAnswer } from './inspect-answers.ts'
import type { ProcessRpc } from './process-rpc.ts'
import type { NamedTask } from './resumed-requests.ts'
import type { CallHost, ServerHost } from './server-host.ts'
import { DONE } from './task-book.ts'

export interface FoundTask extends NamedTask {
  /** Absent while its server is unavailable for this caller. */
  readonly endpoints: Pick<Endpoints, 'request'> | undefined
}

/** Finds a task by name: a background task of Pegboard by its id, a task of a server by its sealed name. */
export function findTask(host: CallHost, caller: Caller, name: unknown): FoundTask | undefined {
  if (isOwnTask(name)) return { owner: OWN, id: name, endpoints: host.ownTasks(caller) }
  const found = host.resumes.findTask(holderOf(caller), name)
  if (!found) return undefined
  const { owner, id, at } = found
  const visibleOwner = host.view(caller).owners.find((one) => one.id === owner)
  const { processes } = host
  // Its answer contains the result of a call, which is inspected like any other.
  const inspected = (endpoints: FoundTask['endpoints']): FoundTask['endpoints'] =>
    endpoints && {
      request: (method, params, relay, signal) => {
        const answer = endpoints.request(method, params, createInspectedRelay(host, caller, owner, relay), signal)
        return inspectAnswer(host, caller, owner, answer)
      },
    }
  if (at === undefined || !processes) return { owner, id, endpoints: inspected(visibleOwner?.endpoints) }
  const reachable = visibleOwner !== undefined || owner === DONE
  return {
    owner,
    id,
    at,
    endpoints: reachable ? inspected(remoteTaskEndpoints(processes, at, owner, visibleOwner?.endpoints)) : undefined,
  }
}

const TOPIC = 'task'

/** A task that another process started, and whose server may be its child. If that process has stopped, uses `localEndpoints`. */
function remoteTaskEndpoints(
  processes: ProcessRpc,
  at: string,
  owner: string,
  localEndpoints: Endpoints | undefined,
): Pick<Endpoints, 'request'> {
  return {
    async request(method, params, relay, signal) {
      const remoteAnswer = await processes.ask(TOPIC, { at, owner, method, params }, { relay, signal })
      if (remoteAnswer) return remoteAnswer
      if (!localEndpoints) throw noTask
      return localEndpoints.request(method, params, relay, signal)
    },
  }
}

/** Serves requests of other processes about tasks of this one. The other process has checked the rights of the caller. */
export function serveRemoteTasks(host: Pick<ServerHost, 'catalog' | 'tasks'>, processes: ProcessRpc): void {
  processes.answer(TOPIC, ({ at, owner, method, params }, { relay, signal = NEVER }) => {
    if (at !== processes.processId) return undefined
    const taskParams = params as Json
    if (owner !== DONE)
      return host.catalog
        .snapshot()
        .owners.get(String(owner))
        ?.endpoints?.request(String(method), taskParams, relay, signal)
    const done = host.tasks.storedTask(String(taskParams['taskId']))
    if (!done) return Promise.reject(noTask)
    return Promise.resolve(method === 'tasks/result' ? done.result : done.task)
  })
}

const NEVER = new AbortController().signal
