/** What the system says when it has no room now for one more file or process; later it may have. */
const FULL = new Set<unknown>(['EMFILE', 'ENFILE', 'EAGAIN'])

/** Whether that is what went wrong, or what was behind it. */
export function isFull(error: unknown): boolean {
  try {
    for (let at = error, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth++)
      if (FULL.has((at as NodeJS.ErrnoException).code)) return true
  } catch {
    // A module may throw what cannot even be looked at.
  }
  return false
}
