import type { Clock } from '../core/clock.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { callerOf, type Entrant } from './caller.ts'
import { createClaims } from './claims.ts'
import { follow } from './follow.ts'
import { followTasks } from './follow-tasks.ts'
import type { ServerHost } from './host.ts'
import { type HttpServer, serveHttp } from './http.ts'
import { createNotifier } from './notify.ts'
import type { HttpSettings } from './options.ts'
import { createRoaming } from './roaming.ts'
import { createMcpInstance } from './server.ts'

export interface ListenOptions {
  readonly host: ServerHost
  readonly settings: HttpSettings
  readonly token: string | undefined
  /** Of who comes without one in the address; default `default`. */
  readonly profile?: string
  readonly clock: Clock
  /** A 2025-era session ended. */
  forget(session: string): void
}

/**
 * Serves a host over HTTP and keeps its clients told of changed lists.
 * @throws PegboardError as `serveHttp` does
 */
export async function listenHttp(options: ListenOptions): Promise<HttpServer> {
  const { host, settings, token, clock, forget, profile = DEFAULT_PROFILE } = options
  const notifier = createNotifier(host, clock)
  const callerFor = (entrant: Entrant, meta?: unknown) =>
    createClaims(host, entrant).of(callerOf({ era: 'modern', entrant }, undefined, undefined), meta)
  const http = await serveHttp({
    settings,
    token,
    tokens: host.tokens,
    profile,
    hasProfile: host.hasProfile,
    clock,
    log: host.log,
    roaming:
      host.shared &&
      createRoaming({ shared: host.shared, clock: host.clock, log: host.log, idleMs: settings.sessionIdleMs }),
    health: () => ({ status: 'ok', eventLoopLagMs: host.lagMs() }),
    ready: host.ready,
    metrics: host.metrics,
    within: host.trustMeta === 'none' ? undefined : host.observer?.within,
    enter: (entrant, meta) => createClaims(host, entrant).enter(meta),
    follow: (entrant, meta, uris) => follow(host, clock, callerFor(entrant, meta), uris),
    followTasks: (entrant, meta, tasks, send) => followTasks(host, clock, callerFor(entrant, meta), tasks, send),
    // Newer clients have no session: whoever listens is told what changed for all who came the same way.
    listening(entrant, notify) {
      const caller = callerFor(entrant)
      const stop = notifier.add({
        callers: () => [caller],
        toolsChanged: () => notify.toolsChanged(),
        promptsChanged: () => notify.promptsChanged(),
        resourcesChanged: () => notify.resourcesChanged(),
      })
      const stopUpdates = host.onUpstream({
        resourceUpdated(owner, uri) {
          if (host.view(caller).owners.some(({ id }) => id === owner)) notify.resourceUpdated(uri)
        },
      })
      return () => {
        stop()
        stopUpdates()
      }
    },
    factory({ era, entrant, sessionId }) {
      const instance = createMcpInstance(host, {
        era,
        entrant,
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
  return {
    ...http,
    async close(graceMs) {
      notifier.close()
      await http.close(graceMs)
    },
  }
}
