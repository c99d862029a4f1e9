/** Topics that can be queried. */
export const KINDS = ['groups', 'subs', 'libs', 'dirs', 'door_sections', 'doors', 'recent_messages', 'stats'] as const
export type Kind = (typeof KINDS)[number]

/** Sort orders of the directory. */
export const ORDERS = ['recent', 'oldest', 'active', 'reliable', 'popular', 'name'] as const
export type Order = (typeof ORDERS)[number]
