import type { Endpoints } from '../catalog/owner.ts'
import { noTask } from './call-tool.ts'
import type { ProcessRpc } from './process-rpc.ts'
import type { ServerHost } from './server-host.ts'
import { DONE } from './task-book.ts'

const TOPIC = 'task'

/** A task that another process started, and whose server may be its child. If that process has stopped, uses `here`. */
export function remoteTaskEndpoints(
  processes: ProcessRpc,
  at: string,
  owner: string,
  here: Endpoints | undefined,
): Pick<Endpoints, 'request'> {
  return {
    async request(method, params, relay, signal) {
      const there = await processes.ask(TOPIC, { at, owner, method, params }, { relay, signal })
      if (there) return there
      if (!here) throw noTask
      return here.request(method, params, relay, signal)
    },
  }
}

/** Serves requests of other processes about tasks of this one. The other process has checked the rights of the caller. */
export function serveRemoteTasks(host: Pick<ServerHost, 'catalog' | 'tasks'>, processes: ProcessRpc): void {
  processes.answer(TOPIC, ({ at, owner, method, params }, { relay, signal = NEVER }) => {
    if (at !== processes.processId) return undefined
    const asked = params as Readonly<Record<string, unknown>>
    if (owner !== DONE)
      return host.catalog.snapshot().owners.get(String(owner))?.endpoints?.request(String(method), asked, relay, signal)
    const done = host.tasks.storedTask(String(asked['taskId']))
    if (!done) return Promise.reject(noTask)
    return Promise.resolve(method === 'tasks/result' ? done.result : done.task)
  })
}

const NEVER = new AbortController().signal
