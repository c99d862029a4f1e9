import type { Caller } from '../core/caller.ts'
import { asRecord } from '../core/is-record.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { CLIENT_CAPABILITIES, CLIENT_INFO } from '../core/protocol-meta.ts'
import { notifyClient } from './client-notifications.ts'
import { callerOf, type Identity } from './identity.ts'
import { createClientQuestions } from './legacy-2025/client-questions.ts'
import { createFastPath } from './legacy-2025/fast-path.ts'
import { createSessionHandover } from './legacy-2025/session-handover.ts'
import { createListNotifier } from './list-notifier.ts'
import { createMcpInstance } from './mcp-instance.ts'
import { subscribeToResources } from './modern-2026/resource-subscriptions.ts'
import { sendTaskChanges } from './modern-2026/task-subscriptions.ts'
import { createRequestBuilder } from './request-builder.ts'
import { createRequestClaims } from './request-claims.ts'
import { type HttpOptions, type HttpServer, serveHttp } from './serve-http.ts'
import type { ServerHost } from './server-host.ts'

export interface ListenOptions extends Pick<HttpOptions, 'settings' | 'token' | 'profile' | 'clock' | 'page'> {
  readonly host: ServerHost
  /** Called when a 2025 session ends. */
  forget(session: string): void
}

/**
 * Serves a host over HTTP and notifies clients of changed lists.
 * @throws PegboardError as `serveHttp` does
 */
export async function listenHttp(options: ListenOptions): Promise<HttpServer> {
  const { host, settings, token, clock, forget, profile = DEFAULT_PROFILE } = options
  const notifier = createListNotifier(host, clock)
  const callerFor = (identity: Identity, meta: unknown): Caller =>
    createRequestClaims(host, identity).of(callerWithoutClaims(identity, meta), meta)
  const http = await serveHttp({
    settings,
    token,
    tokens: host.tokens,
    profile,
    hasProfile: host.hasProfile,
    clock,
    log: host.log,
    handover:
      host.shared &&
      createSessionHandover({ shared: host.shared, clock: host.clock, log: host.log, idleMs: settings.sessionIdleMs }),
    processes: host.processes,
    health: () => ({ status: 'ok', eventLoopLagMs: host.lagMs() }),
    ready: host.ready,
    metrics: host.metrics,
    page: options.page,
    within: host.trustMeta === 'none' ? undefined : host.observer?.runInContext,
    modern: {
      enter: (identity, meta) => createRequestClaims(host, identity).enter(meta),
      follow: (identity, meta, uris) => subscribeToResources(host, clock, callerFor(identity, meta), uris),
      followTasks: (identity, meta, tasks, send) =>
        sendTaskChanges(host, clock, callerFor(identity, meta), tasks, send),
      // 2026 clients have no session: all that listen with the same identity and name share one notifier.
      listening(identity, meta, notify) {
        const caller = callerWithoutClaims(identity, meta)
        const stop = notifier.add({ callers: () => [caller], listChanged: (kind) => notify[`${kind}Changed`]() })
        const stopUpdates = host.onUpstream({
          resourceUpdated(uri, isKnown, who) {
            const isOthers = who !== undefined && (who.session !== undefined || who.principal !== caller.principal)
            if (!isOthers && isKnown(host.view(caller))) notify.resourceUpdated(uri)
          },
        })
        return () => {
          stop()
          stopUpdates()
        }
      },
    },
    factory(connection) {
      const { identity } = connection
      if (connection.era === 'modern')
        return createMcpInstance(host, createRequestBuilder(host, { era: 'modern', identity, perRequest: true }))
      const { sessionId, send } = connection
      const requests = createRequestBuilder(host, { era: 'legacy', identity, session: sessionId })
      const questions = createClientQuestions(clock, send)
      const instance = createMcpInstance(host, requests, questions)
      const fastPath = createFastPath({
        requests,
        questions,
        initializes: false,
        send,
        handOver(message, result) {
          if (message.id !== undefined) instance.keepFirstResult(message.id, result)
          instance.server.server.transport?.onmessage?.(message as never)
        },
      })
      let stop: (() => void) | undefined
      return {
        server: instance.server,
        session: {
          introduce({ params }) {
            requests.introduce(params)
            // Only now, because what a client is notified of depends on its name.
            stop ??= notifyClient(host, notifier, requests, (method, params) =>
              send({ jsonrpc: '2.0', method, params }),
            )
          },
          take: fastPath.take,
        },
        dispose() {
          stop?.()
          fastPath.close()
          instance.dispose()
          forget(sessionId)
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

/** The caller of a 2026 request, without what its `_meta` claims about user, channel and model. */
function callerWithoutClaims(identity: Identity, meta: unknown): Caller {
  const { [CLIENT_INFO]: client, [CLIENT_CAPABILITIES]: capabilities } = asRecord(meta)
  return callerOf({ era: 'modern', identity }, client, capabilities)
}
