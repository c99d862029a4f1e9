import { ProtocolFailure } from '../core/protocol-failure.ts'

export const MAX_SUBSCRIPTIONS = 500
/** Longest URI of a subscription, in characters; no server lists a longer one. */
export const MAX_URI_CHARS = 2_000

/**
 * @param count subscriptions that the client has
 * @throws ProtocolFailure -32602 if one more would be too many, or the URI is too long
 */
export function checkSubscription(uri: string, count: number): void {
  if (uri.length > MAX_URI_CHARS || count >= MAX_SUBSCRIPTIONS)
    throw new ProtocolFailure(
      -32602,
      `A client may subscribe to ${MAX_SUBSCRIPTIONS} resources, with URIs of up to ${MAX_URI_CHARS} characters`,
    )
}
