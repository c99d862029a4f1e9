/** The kinds of addresses that a setting such as `allowPrivate` allows besides public ones. */
export const OWN_NETWORK = ['private', 'link-local', 'loopback'] as const
