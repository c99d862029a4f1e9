import type { Endpoints } from '../catalog/catalog.ts'
import { noTask } from './answer.ts'
import type { Elsewhere } from './elsewhere.ts'
import type { ServerHost } from './host.ts'
import { DONE } from './task-book.ts'

const TOPIC = 'task'

/** A task that another process began: its server may be a child of that one. When it has gone, `here` is asked. */
export function endpointsAt(
  elsewhere: Elsewhere,
  at: string,
  owner: string,
  here: Endpoints | undefined,
): Pick<Endpoints, 'request'> {
  return {
    async request(method, params, relay, signal) {
      const there = await elsewhere.ask(TOPIC, { at, owner, method, params }, { relay, signal })
      if (there) return there
      if (!here) throw noTask
      return here.request(method, params, relay, signal)
    },
  }
}

/** Serves other processes what is asked of tasks that were begun here. Who may ask is decided there. */
export function serveTasks(host: Pick<ServerHost, 'catalog' | 'tasks'>, elsewhere: Elsewhere): void {
  elsewhere.answer(TOPIC, ({ at, owner, method, params }, { relay, signal = NEVER }) => {
    if (at !== elsewhere.mark) return undefined
    const asked = params as Readonly<Record<string, unknown>>
    if (owner !== DONE)
      return host.catalog.snapshot().owners.get(String(owner))?.endpoints?.request(String(method), asked, relay, signal)
    const done = host.tasks.kept(String(asked['taskId']))
    if (!done) return Promise.reject(noTask)
    return Promise.resolve(method === 'tasks/result' ? done.result : done.task)
  })
}

const NEVER = new AbortController().signal
