import type { Endpoints } from '../catalog/owner.ts'
import { setNewest } from '../core/drop-oldest.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { mostVerbose } from '../core/log-levels.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { mayLink } from '../core/raw-result.ts'
import type { Semaphore } from '../core/semaphore.ts'
import type { Relay, RequestOwner } from '../core/tool.ts'
import { withCallSlot } from './call-slots.ts'
import type { Connection } from './connection.ts'
import { isReadableAnswer } from './content-blocks.ts'
import type { Claims } from './resource-claims.ts'
import type { ServerContext, UpstreamShared } from './upstream-shared.ts'

export interface EndpointsHost extends Pick<ServerContext, 'id' | 'timeoutMs' | 'log'> {
  readonly shared: Pick<UpstreamShared, 'clock' | 'timestamps'>
  /** Waits for the caller's connection. @throws PegboardError E_UPSTREAM_UNAVAILABLE */
  ready(signal: AbortSignal, who: RequestOwner): Promise<Connection>
  /** The caller's connection, if it is open. */
  live(who: RequestOwner): Connection | undefined
  keyOf(who: RequestOwner): string
  request(method: string, params: Json, relay: Relay, signal: AbortSignal): Promise<Json>
  /** Limits how many requests and calls run at once. */
  slots(): Semaphore
  readonly tasks: Readonly<Record<string, (params: Json, relay: Relay, signal: AbortSignal) => Promise<Json>>>
  /** True if the server can run calls as tasks, as far as known. */
  hasTasks(): boolean
  readonly claims: Pick<Claims, 'since' | 'names'>
  /** The server's own name of a prompt. */
  promptNamed(exposed: string): string
}

export interface ServerEndpoints extends Endpoints {
  /** When a server first had this resource; undefined if it never did. */
  firstSeenAt(uri: string): number | undefined
  listUris(): readonly string[]
  /** When the server mentioned this resource in a result. */
  returnedAt(uri: string): number | undefined
  remember(result: Json): void
  /** Repeats subscriptions and log level on a new connection with this key. */
  restore(key: string, connection: Connection): void
  /** True if someone is subscribed to a resource on this connection. */
  follows(key: string): boolean
  /** Forgets the subscriptions of a closed connection. */
  dropped(key: string): void
}

const MAX_RETURNED = 2_000
const MAX_URI = 2_000

/** The content blocks of a result that may name resources. */
function listLinkedBlocks({ content, messages, contents }: Json): readonly Json[] {
  if (Array.isArray(content)) return content.filter(isRecord)
  if (Array.isArray(contents)) return contents.filter(isRecord)
  if (Array.isArray(messages)) return messages.map((one) => asRecord(one)['content']).filter(isRecord)
  return []
}

interface SubscriptionState {
  count: number
  begun?: Promise<Json>
}

/**
 * Resources, prompts, completion and logging of one server. Subscriptions are counted, because many clients may share
 * a connection.
 */
export function createEndpoints(host: EndpointsHost): ServerEndpoints {
  /** By connection: number of subscribers of each resource, and the server's answer to the first. */
  const subscriptions = new Map<string, Map<string, SubscriptionState>>()
  /** Log level of each session; requests without a session share one. */
  const levels = new Map<object, string>()
  const noConnection = {}
  let level: string | undefined

  async function follow(key: string, connection: Connection, method: string, params: Json): Promise<Json> {
    if (connection.era === 'modern') {
      await connection.watch([...(subscriptions.get(key)?.keys() ?? [])])
      return {}
    }
    return await connection.request(method, params, { timeoutMs: host.timeoutMs() })
  }

  async function setLevel(connection: Connection): Promise<void> {
    if (level === undefined || !isRecord(connection.capabilities['logging'])) return
    if (connection.era === 'modern') connection.setLogLevel(level)
    else await connection.request('logging/setLevel', { level }, { timeoutMs: host.timeoutMs() })
  }

  const request: EndpointsHost['request'] = (method, params, relay, signal) => {
    const { clock } = host.shared
    const slot = { slots: host.slots(), what: `${method} of ${host.id}`, relay, signal, timeoutMs: host.timeoutMs() }
    return withCallSlot({ clock, ...slot }, (asking) => host.request(method, params, asking, signal))
  }

  const answers: Readonly<Record<string, (params: Json, relay: Relay, signal: AbortSignal) => Promise<Json>>> = {
    'resources/read': (params, relay, signal) => request('resources/read', params, relay, signal),
    'prompts/get': (params, relay, signal) =>
      request('prompts/get', { ...params, name: host.promptNamed(String(params['name'])) }, relay, signal),
    async 'completion/complete'(params, relay, signal) {
      const connection = await host.ready(signal, relay)
      const { ref } = params
      const serverRef =
        isRecord(ref) && ref['type'] === 'ref/prompt' ? { ...ref, name: host.promptNamed(String(ref['name'])) } : ref
      try {
        return await request('completion/complete', { ...params, ref: serverRef }, relay, signal)
      } catch (error) {
        // The first revision had no such capability, so the request itself must tell.
        if (isRecord(connection.capabilities['completions']) || !isProtocolFailure(error) || error.code !== -32601)
          throw error
        return { completion: { values: [] } }
      }
    },
    async 'resources/subscribe'(params, relay, signal) {
      const uri = String(params['uri'])
      const connection = await host.ready(signal, relay)
      const resources = connection.capabilities['resources']
      if (!isRecord(resources) || resources['subscribe'] !== true)
        throw new ProtocolFailure(-32601, 'This server does not announce changes of its resources')
      const key = host.keyOf(relay)
      const subscribed = getOrInsert(subscriptions, key, () => new Map())
      const subscription = getOrInsert(subscribed, uri, () => ({ count: 0 }))
      subscription.count++
      subscription.begun ??= follow(key, connection, 'resources/subscribe', { uri })
      try {
        return await subscription.begun
      } catch (error) {
        // Nobody is subscribed; all concurrent callers get the same error.
        if (subscribed.get(uri) === subscription) subscribed.delete(uri)
        throw error
      }
    },
    async 'resources/unsubscribe'(params, relay, signal) {
      const uri = String(params['uri'])
      const key = host.keyOf(relay)
      const subscribed = subscriptions.get(key)
      const subscription = subscribed?.get(uri)
      if (!subscribed || !subscription) return {}
      subscription.count--
      if (subscription.count > 0) return {}
      subscribed.delete(uri)
      // A closed connection has no subscriptions.
      const connection = key === '' ? await host.ready(signal, relay) : host.live(relay)
      return connection ? await follow(key, connection, 'resources/unsubscribe', { uri }) : {}
    },
    ...host.tasks,
    async 'logging/setLevel'({ level: requestedLevel }, relay, signal) {
      const { connection = noConnection } = relay
      if (typeof requestedLevel === 'string') levels.set(connection, requestedLevel)
      else levels.delete(connection)
      const before = level
      level = mostVerbose(levels.values()) ?? level
      // Never starts a server only to lower its log level.
      if (level === before || typeof requestedLevel !== 'string') return {}
      await setLevel(await host.ready(signal, relay))
      return {}
    },
  }

  const returned = new Map<string, number>()
  const firstSeenAt = (uri: string): number | undefined => host.claims.since(uri) ?? returned.get(uri)
  const rememberUri = (uri: unknown): void => {
    if (typeof uri !== 'string' || uri.length > MAX_URI) return
    // The most recent one is kept longest.
    setNewest(returned, uri, firstSeenAt(uri) ?? host.shared.timestamps.next(), MAX_RETURNED)
  }
  const remember = (result: Json): void => {
    if (!mayLink(result)) return
    for (const block of listLinkedBlocks(result))
      rememberUri(block['uri'] ?? (block['resource'] as Json | undefined)?.['uri'])
  }

  return {
    get tasks() {
      return host.hasTasks()
    },
    firstSeenAt,
    listUris: host.claims.names,
    returnedAt: (uri) => returned.get(uri),
    remember,
    async request(method, params, relay, signal) {
      const answer = Object.hasOwn(answers, method) ? answers[method] : undefined
      if (!answer) throw new ProtocolFailure(-32601, `${method} is not passed on`)
      const { _meta, ...serverParams } = params
      const result = await answer(serverParams, relay, signal)
      if (!isReadableAnswer(method, result))
        throw new PegboardError(
          'E_UPSTREAM_PROTOCOL',
          `${host.id} answered ${method} with a result that no client can read.`,
        )
      remember(result)
      return result
    },
    follows: (key) => (subscriptions.get(key)?.size ?? 0) > 0,
    dropped: (key) => void subscriptions.delete(key),
    restore(key, connection) {
      const failed = (error: unknown): void =>
        host.log.warn('not restored after reconnecting', { error: messageOf(error) })
      setLevel(connection).catch(failed)
      const uris = [...(subscriptions.get(key)?.keys() ?? [])]
      if (uris.length === 0) return
      if (connection.era === 'modern') connection.watch(uris).catch(failed)
      else for (const uri of uris) follow(key, connection, 'resources/subscribe', { uri }).catch(failed)
    },
  }
}
