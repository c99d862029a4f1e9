/** What the system says when it has no room now for one more file or process; later it may have. */
const FULL = new Set(['EMFILE', 'ENFILE', 'EAGAIN'])

export const isFull = (error: unknown): boolean => FULL.has((error as NodeJS.ErrnoException | undefined)?.code ?? '')
