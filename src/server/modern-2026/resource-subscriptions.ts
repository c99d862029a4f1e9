import { ownerOfResource } from '../../catalog/resource-owner.ts'
import type { Caller } from '../../core/caller.ts'
import type { Clock } from '../../core/clock.ts'
import type { Json } from '../../core/is-record.ts'
import type { Message } from '../../core/jsonrpc.ts'
import { relayOf } from '../../core/tool.ts'
import { waitAtMost } from '../../core/wait-at-most.ts'
import type { BaseHost } from '../server-host.ts'
import { MAX_SUBSCRIPTIONS, MAX_URI_CHARS } from '../subscription-limits.ts'

/** Time limit for requests to servers that no client waits for, in milliseconds. */
const SHORT_MS = 5_000
/** Maximum delay of the acknowledgement by servers that do not answer, in milliseconds. */
const BEGIN_MS = 2_000

/** The resources that a `subscriptions/listen` names. */
export function subscribedUris({ method, params }: Message): readonly string[] {
  if (method !== 'subscriptions/listen') return []
  const requestedUris = (params?.['notifications'] as { resourceSubscriptions?: unknown } | undefined)
    ?.resourceSubscriptions
  if (!Array.isArray(requestedUris)) return []
  return requestedUris
    .filter((uri): uri is string => typeof uri === 'string' && uri.length <= MAX_URI_CHARS)
    .slice(0, MAX_SUBSCRIPTIONS)
}

/** The same message with these resources only. */
export function withSubscribedUris(message: Message, followed: readonly string[]): Message {
  const { notifications } = (message.params ?? {}) as { notifications?: Json }
  const requestedUris = notifications?.['resourceSubscriptions']
  if (!Array.isArray(requestedUris)) return message
  const followedUris = new Set(followed)
  // The SDK reports values that are not strings.
  const resourceSubscriptions = requestedUris.filter((uri) => typeof uri !== 'string' || followedUris.has(uri))
  return { ...message, params: { ...message.params, notifications: { ...notifications, resourceSubscriptions } } }
}

export interface ResourceSubscriptions {
  /** The resources that servers accepted, after all have answered or two seconds. Later ones are subscribed too. */
  readonly acceptedUris: Promise<readonly string[]>
  stop(): void
}

/** Subscribes to resources at their servers, of either era, as far as the caller sees them. */
export function subscribeToResources(
  host: BaseHost,
  clock: Clock,
  caller: Caller,
  uris: readonly string[],
): ResourceSubscriptions {
  const { owners } = host.view(caller)
  const ending = new AbortController()
  const refused = new Set<string>()
  const subscriptions = [...new Set(uris)].flatMap((uri) => {
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
    const began = ask('resources/subscribe', ending.signal).then((isAccepted) => {
      if (!isAccepted) refused.add(uri)
      return isAccepted
    })
    return [{ uri, ask, began }]
  })
  const answered = Promise.all(subscriptions.map(({ began }) => began))
  return {
    acceptedUris: waitAtMost(BEGIN_MS, answered, undefined, clock).then(() =>
      subscriptions.map(({ uri }) => uri).filter((uri) => !refused.has(uri)),
    ),
    stop() {
      ending.abort()
      // Servers count subscriptions: a refused one must not be taken back.
      for (const { ask, began } of subscriptions)
        void began.then((isAccepted) => isAccepted && ask('resources/unsubscribe', AbortSignal.timeout(SHORT_MS)))
    },
  }
}
