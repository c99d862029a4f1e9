/** Maximum number of subscriptions of one client. */
export const MAX_SUBSCRIPTIONS = 500
/** Longest URI of a subscription, in characters; no server lists a longer one. */
export const MAX_URI_CHARS = 2_000
