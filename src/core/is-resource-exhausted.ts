/** Error codes for a temporary lack of descriptors or processes. */
const FULL = new Set<unknown>(['EMFILE', 'ENFILE', 'EAGAIN'])

/** True if the error, or one of its causes, has such a code. */
export function isResourceExhausted(error: unknown): boolean {
  try {
    for (let at = error, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth++)
      if (FULL.has((at as NodeJS.ErrnoException).code)) return true
  } catch {
    // A module may throw an object whose properties throw.
  }
  return false
}
