import type { Clock } from '../core/clock.ts'
import { callerOf } from './caller.ts'
import { follow } from './follow.ts'
import { followTasks } from './follow-tasks.ts'
import type { ServerHost } from './host.ts'
import { type HttpServer, serveHttp } from './http.ts'
import { createNotifier } from './notify.ts'
import type { HttpSettings } from './options.ts'
import { createMcpInstance } from './server.ts'

export interface ListenOptions {
  readonly host: ServerHost
  readonly settings: HttpSettings
  readonly token: string | undefined
  readonly clock: Clock
  /** A 2025-era session ended. */
  forget(session: string): void
}

/**
 * Serves a host over HTTP and keeps its clients told of changed lists.
 * @throws PegboardError as `serveHttp` does
 */
export async function listenHttp({ host, settings, token, clock, forget }: ListenOptions): Promise<HttpServer> {
  const notifier = createNotifier(host, clock)
  const http = await serveHttp({
    settings,
    token,
    clock,
    log: host.log,
    health: () => ({ status: 'ok' }),
    follow: (principal, uris) => follow(host, callerOf({ era: 'modern', principal }, undefined, undefined), uris),
    followTasks: (principal, tasks, send) =>
      followTasks(host, clock, callerOf({ era: 'modern', principal }, undefined, undefined), tasks, send),
    factory({ era, principal, sessionId }) {
      const instance = createMcpInstance(host, {
        era,
        principal,
        perRequest: era === 'modern',
        ...(sessionId === undefined ? {} : { session: sessionId }),
      })
      if (era === 'modern') return instance
      const stop = notifier.add(instance)
      return {
        server: instance.server,
        lane: instance.laneTo,
        dispose() {
          stop()
          instance.dispose()
          if (sessionId !== undefined) forget(sessionId)
        },
      }
    },
  })
  // Newer clients have no session: whoever listens is told when the list of their principal changed.
  const stop = notifier.add({
    caller: () => callerOf({ era: 'modern', principal: 'local' }, undefined, undefined),
    toolsChanged: () => http.notify.toolsChanged(),
    promptsChanged: () => http.notify.promptsChanged(),
    resourcesChanged: () => http.notify.resourcesChanged(),
  })
  const stopUpdates = host.onUpstream({ resourceUpdated: (uri) => http.notify.resourceUpdated(uri) })
  return {
    ...http,
    async close(graceMs) {
      stop()
      stopUpdates()
      notifier.close()
      await http.close(graceMs)
    },
  }
}
