import type { Endpoints } from '../catalog/catalog.ts'
import { monotonicMs } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import { mostVerbose } from '../core/levels.ts'
import type { Log } from '../core/log.ts'
import { mayLink } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import type { Relay, Who } from '../core/tool.ts'
import type { Connection } from './connection.ts'
import { isReadableAnswer } from './content.ts'

type Json = Readonly<Record<string, unknown>>

export interface EndpointsHost {
  readonly id: string
  readonly timeoutMs: number
  readonly log: Log
  /** Waits for a live connection, which is that of who asks where callers have their own. @throws PegboardError E_UPSTREAM_UNAVAILABLE */
  ready(signal: AbortSignal, who: Who): Promise<Connection>
  /** The connection of who asks, if it is open. */
  live(who: Who): Connection | undefined
  /** Names that connection. */
  keyOf(who: Who): string
  request(method: string, params: Json, relay: Relay, signal: AbortSignal): Promise<Json>
  /** Makes a request in one of the places that calls have, which its questions leave. @throws PegboardError E_OVERLOADED */
  placed(method: string, relay: Relay, signal: AbortSignal, work: (relay: Relay) => Promise<Json>): Promise<Json>
  /** Requests about tasks. */
  readonly tasks: Readonly<Record<string, (params: Json, relay: Relay, signal: AbortSignal) => Promise<Json>>>
  /** Whether calls can be tasks at this server, as far as is known. */
  hasTasks(): boolean
  /** The server's own name of a prompt. */
  promptNamed(exposed: string): string
}

export interface ServerEndpoints extends Endpoints {
  hadSince(uri: string): number | undefined
  /** What it lists now. */
  lists(uris: readonly string[]): void
  /** Remembers the resources a result links to or holds. */
  remember(result: Json): void
  /** Tells a new connection what the last one of this key had been told: subscriptions and log level. */
  restore(key: string, connection: Connection): void
  /** Somebody waits for updates of a resource on this connection. */
  follows(key: string): boolean
  /** The connection has ended, with all that was followed there. */
  dropped(key: string): void
}

const MAX_HANDED = 2_000
const MAX_URI = 2_000

/** Blocks of a tool result, a prompt or a resource that may name a resource. */
function linked({ content, messages, contents }: Json): readonly Json[] {
  if (Array.isArray(content)) return content.filter(isRecord)
  if (Array.isArray(contents)) return contents.filter(isRecord)
  if (Array.isArray(messages))
    return messages.map((one) => (isRecord(one) ? one['content'] : undefined)).filter(isRecord)
  return []
}

interface Followed {
  count: number
  begun?: Promise<Json>
}

/** Resources, prompts, completion and logging of one server. Many clients may share a connection, so subscriptions are counted. */
export function createEndpoints(host: EndpointsHost): ServerEndpoints {
  /** By connection: how many follow each resource, and what its server answered to the first. */
  const subscriptions = new Map<string, Map<string, Followed>>()
  /** What each session wants; those of no session share one. */
  const levels = new Map<object, string>()
  const nobody = {}
  let level: string | undefined

  async function follow(key: string, connection: Connection, method: string, params: Json): Promise<Json> {
    if (connection.era === 'modern') {
      await connection.watch([...(subscriptions.get(key)?.keys() ?? [])])
      return {}
    }
    return await connection.request(method, params, { timeoutMs: host.timeoutMs })
  }

  async function setLevel(connection: Connection): Promise<void> {
    if (level === undefined || !isRecord(connection.capabilities['logging'])) return
    if (connection.era === 'modern') connection.setLogLevel(level)
    else await connection.request('logging/setLevel', { level }, { timeoutMs: host.timeoutMs })
  }

  const request: EndpointsHost['request'] = (method, params, relay, signal) =>
    host.placed(method, relay, signal, (asking) => host.request(method, params, asking, signal))

  const answers: Readonly<Record<string, (params: Json, relay: Relay, signal: AbortSignal) => Promise<Json>>> = {
    'resources/read': (params, relay, signal) => request('resources/read', params, relay, signal),
    'prompts/get': (params, relay, signal) =>
      request('prompts/get', { ...params, name: host.promptNamed(String(params['name'])) }, relay, signal),
    async 'completion/complete'(params, relay, signal) {
      const connection = await host.ready(signal, relay)
      const { ref } = params
      const named =
        isRecord(ref) && ref['type'] === 'ref/prompt' ? { ...ref, name: host.promptNamed(String(ref['name'])) } : ref
      try {
        return await request('completion/complete', { ...params, ref: named }, relay, signal)
      } catch (error) {
        // The first revision had no word for the capability: only asking tells.
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
      const subscribed = subscriptions.get(key) ?? new Map<string, Followed>()
      subscriptions.set(key, subscribed)
      const one: Followed = subscribed.get(uri) ?? { count: 0 }
      one.count++
      subscribed.set(uri, one)
      one.begun ??= follow(key, connection, 'resources/subscribe', { uri })
      try {
        return await one.begun
      } catch (error) {
        // Nobody follows it: all who asked meanwhile hear the same.
        if (subscribed.get(uri) === one) subscribed.delete(uri)
        throw error
      }
    },
    async 'resources/unsubscribe'(params, relay, signal) {
      const uri = String(params['uri'])
      const key = host.keyOf(relay)
      const subscribed = subscriptions.get(key)
      const one = subscribed?.get(uri)
      if (!subscribed || !one) return {}
      one.count--
      if (one.count > 0) return {}
      subscribed.delete(uri)
      // A connection that has ended follows nothing.
      const connection = key === '' ? await host.ready(signal, relay) : host.live(relay)
      return connection ? await follow(key, connection, 'resources/unsubscribe', { uri }) : {}
    },
    ...host.tasks,
    async 'logging/setLevel'({ level: wanted }, relay, signal) {
      const { connection = nobody } = relay
      if (typeof wanted === 'string') levels.set(connection, wanted)
      else levels.delete(connection)
      const before = level
      level = mostVerbose(levels.values()) ?? level
      // No server is started to be told to say less.
      if (level === before || typeof wanted !== 'string') return {}
      await setLevel(await host.ready(signal, relay))
      return {}
    },
  }

  let listed: ReadonlyMap<string, number> = new Map()
  const handed = new Map<string, number>()
  const hadSince = (uri: string): number | undefined => listed.get(uri) ?? handed.get(uri)
  const hand = (uri: unknown): void => {
    if (typeof uri !== 'string' || uri.length > MAX_URI) return
    // The latest is kept longest.
    const since = hadSince(uri) ?? monotonicMs()
    handed.delete(uri)
    handed.set(uri, since)
    if (handed.size > MAX_HANDED) handed.delete(handed.keys().next().value as string)
  }
  const remember = (result: Json): void => {
    if (!mayLink(result)) return
    for (const block of linked(result)) hand(block['uri'] ?? (block['resource'] as Json | undefined)?.['uri'])
  }

  return {
    get tasks() {
      return host.hasTasks()
    },
    hadSince,
    lists(uris) {
      if (uris.length + listed.size === 0) return
      const now = monotonicMs()
      listed = new Map(uris.map((uri) => [uri, hadSince(uri) ?? now]))
    },
    remember,
    async request(method, params, relay, signal) {
      const answer = Object.hasOwn(answers, method) ? answers[method] : undefined
      if (!answer) throw new ProtocolFailure(-32601, `${method} is not passed on`)
      const { _meta, ...own } = params
      const result = await answer(own, relay, signal)
      if (!isReadableAnswer(method, result))
        throw new PegboardError('E_UPSTREAM_PROTOCOL', `${host.id} answered ${method} with what no client can read.`)
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
