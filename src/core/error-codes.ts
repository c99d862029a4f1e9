/** The code of an error, such as `ENOENT`, and the system call that failed. */
interface CodeOfError {
  readonly code: string
  readonly syscall?: string | undefined
}

/** The codes of an error and of its causes, outermost first. Empty if the error cannot be read. */
export function listErrorCodes(error: unknown): readonly CodeOfError[] {
  const found: CodeOfError[] = []
  try {
    for (let at = error, depth = 0; at instanceof Error && depth < 4; at = at.cause, depth++) {
      const { code, syscall } = at as NodeJS.ErrnoException
      if (typeof code === 'string') found.push({ code, syscall: typeof syscall === 'string' ? syscall : undefined })
    }
  } catch {
    // A module may throw an object whose properties throw.
  }
  return found
}

/** Error codes for a temporary lack of descriptors or processes. */
const EXHAUSTED = new Set(['EMFILE', 'ENFILE', 'EAGAIN'])

/** True if the error, or one of its causes, has one of these codes. */
export const isResourceExhausted = (error: unknown): boolean =>
  listErrorCodes(error).some(({ code }) => EXHAUSTED.has(code))
