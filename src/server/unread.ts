/** From so many bytes on that a client has not read, Pegboard takes no more of its requests. */
export const HOLD_BYTES = 1024 * 1024
/** From so many bytes on that a client has not read it gets no more of what it can do without. */
export const MAX_UNREAD_BYTES = 16 * 1024 * 1024
/** One with so many is not coming back. */
export const CUT_OFF_BYTES = 64 * 1024 * 1024

const PASSING = new Set<unknown>(['notifications/message', 'notifications/progress'])

/** Logs and progress: a client that missed some is none the wiser, and a server may send them without end. */
export const isPassing = (message: object): boolean => PASSING.has((message as { readonly method?: unknown }).method)
