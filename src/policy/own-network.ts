// Not in network-rules.ts: `fetch` and `connect` load that only with the first request.

/**
 * The kinds of addresses that a setting such as `allowPrivate` allows besides public ones, if a model or a tool chooses
 * the address. Clouds put services with credentials at link-local addresses.
 */
export const OWN_NETWORK = ['private', 'loopback'] as const

/** The kinds for servers and APIs of the operator's configuration: a device may have only a link-local address. */
export const OPERATOR_NETWORK = [...OWN_NETWORK, 'link-local'] as const
