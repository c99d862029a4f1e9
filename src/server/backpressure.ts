/** Unread bytes at which Pegboard stops reading requests of a client. */
export const HOLD_BYTES = 1024 * 1024
/** Unread bytes at which a client gets no more log messages and progress. */
export const MAX_UNREAD_BYTES = 16 * 1024 * 1024
/** Unread bytes at which Pegboard closes the connection. */
export const CUT_OFF_BYTES = 64 * 1024 * 1024

const DROPPABLE = new Set<unknown>(['notifications/message', 'notifications/progress'])

/** Whether a message can be dropped: log messages and progress, which a server may send without end. */
export const isDroppable = (message: object): boolean =>
  DROPPABLE.has((message as { readonly method?: unknown }).method)
