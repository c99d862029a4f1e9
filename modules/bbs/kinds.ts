/** What can be asked of the board. */
export const KINDS = ['groups', 'subs', 'libs', 'dirs', 'door_sections', 'doors', 'recent_messages', 'stats'] as const
export type Kind = (typeof KINDS)[number]

/** How boards of the directory are ordered. */
export const ORDERS = ['recent', 'oldest', 'active', 'reliable', 'popular', 'name'] as const
export type Order = (typeof ORDERS)[number]
