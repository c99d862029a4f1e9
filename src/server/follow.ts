import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import { ProtocolFailure } from '../core/failure.ts'
import type { Message } from '../core/jsonrpc.ts'
import { relayOf } from '../core/tool.ts'
import type { ServerHost } from './host.ts'
import { ownerOfResource } from './route.ts'

/** How long a server may take over what no client waits for. */
const SHORT_MS = 5_000
/** A change after the acknowledgement is told, but one server that hangs must not keep it back. */
const BEGIN_MS = 2_000
/** Of one client. */
const MAX_FOLLOWED = 500
/** Of what is followed; a longer address names nothing that a server listed. */
const MAX_URI_CHARS = 2_000

/** @throws ProtocolFailure -32602 where one more would be too many */
export function checkFollowed(uri: string, followed: { readonly size: number }): void {
  if (uri.length > MAX_URI_CHARS || followed.size >= MAX_FOLLOWED)
    throw new ProtocolFailure(
      -32602,
      `A client may follow ${MAX_FOLLOWED} resources, with addresses of up to ${MAX_URI_CHARS} characters`,
    )
}

/** The resources a `subscriptions/listen` names. */
export function followedBy({ method, params }: Message): readonly string[] {
  if (method !== 'subscriptions/listen') return []
  const wanted = (params?.['notifications'] as { resourceSubscriptions?: unknown } | undefined)?.resourceSubscriptions
  if (!Array.isArray(wanted)) return []
  return wanted
    .filter((uri): uri is string => typeof uri === 'string' && uri.length <= MAX_URI_CHARS)
    .slice(0, MAX_FOLLOWED)
}

/** The same message, which asks for these resources alone. */
export function withFollowed(message: Message, followed: readonly string[]): Message {
  const { notifications } = (message.params ?? {}) as { notifications?: Readonly<Record<string, unknown>> }
  const wanted = notifications?.['resourceSubscriptions']
  if (!Array.isArray(wanted)) return message
  const known = new Set(followed)
  // What is no text is left for whoever checks the message.
  const resourceSubscriptions = wanted.filter((uri) => typeof uri !== 'string' || known.has(uri))
  return { ...message, params: { ...message.params, notifications: { ...notifications, resourceSubscriptions } } }
}

export interface Following {
  /** Those that are followed, when every server has answered or had its time. What takes longer may still be. */
  readonly begun: Promise<readonly string[]>
  stop(): void
}

/**
 * Follows these resources at the servers that have them, whatever era those are of, as far as the caller sees them.
 * What its server refuses is not among those that are followed, and the rest is.
 */
export function follow(host: ServerHost, clock: Clock, caller: Caller, uris: readonly string[]): Following {
  const { owners } = host.view(caller)
  const ending = new AbortController()
  const refused = new Set<string>()
  const asked = [...new Set(uris)].flatMap((uri) => {
    const owner = ownerOfResource(owners, uri)
    if (!owner?.endpoints) return []
    const { endpoints } = owner
    const ask = (method: string, signal: AbortSignal): Promise<boolean> =>
      endpoints.request(method, { uri }, relayOf(caller), signal).then(
        () => true,
        (error) => {
          host.log.debug(`${method} failed`, { owner: owner.id, error })
          return false
        },
      )
    const began = ask('resources/subscribe', ending.signal).then((did) => {
      if (!did) refused.add(uri)
      return did
    })
    return [{ uri, ask, began }]
  })
  let cancel = (): void => undefined
  const late = new Promise<void>((resolve) => {
    if (asked.length > 0) cancel = clock.after(BEGIN_MS, resolve)
  })
  const answered = Promise.all(asked.map(({ began }) => began)).then(() => cancel())
  return {
    begun: Promise.race([answered, late]).then(() => asked.map(({ uri }) => uri).filter((uri) => !refused.has(uri))),
    stop() {
      ending.abort()
      // A server counts who follows: what it refused is not taken back.
      for (const { ask, began } of asked)
        void began.then((did) => did && ask('resources/unsubscribe', AbortSignal.timeout(SHORT_MS)))
    },
  }
}
