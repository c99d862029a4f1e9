import type { Caller } from '../core/context.ts'
import { ProtocolFailure } from '../core/failure.ts'
import type { Message } from '../core/jsonrpc.ts'
import { noRelay } from '../core/tool.ts'
import type { ServerHost } from './host.ts'
import { ownerOfResource } from './route.ts'

/** How long a server may take over what no client waits for. */
const SHORT_MS = 5_000
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

/**
 * Follows these resources at the servers that have them, whatever era those are of, as far as the caller sees them.
 * A server that cannot is passed over: the client hears of no change, as of any that never changes.
 * @returns how to stop
 */
export function follow(host: ServerHost, caller: Caller, uris: readonly string[]): () => void {
  const followed = uris.flatMap((uri) => {
    const owner = ownerOfResource(host.view(caller).owners, uri)
    if (!owner?.endpoints) return []
    const { endpoints } = owner
    const ask = (method: string): Promise<unknown> =>
      endpoints
        .request(method, { uri }, noRelay, AbortSignal.timeout(SHORT_MS))
        .catch((error) => host.log.debug(`${method} failed`, { owner: owner.id, error }))
    return [{ ask, began: ask('resources/subscribe') }]
  })
  return () => {
    for (const { ask, began } of followed) void began.then(() => ask('resources/unsubscribe'))
  }
}
