import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'

/** Reads a file. Undefined if another user could have written it, or if it cannot be read. */
export function readOwnFile(file: string): Buffer | undefined {
  try {
    const descriptor = openSync(file, 'r')
    try {
      const { uid, mode } = fstatSync(descriptor)
      if (process.getuid !== undefined && (uid !== process.getuid() || (mode & 0o022) !== 0)) return undefined
      return readFileSync(descriptor)
    } finally {
      closeSync(descriptor)
    }
  } catch {
    // Errors are ignored, because Pegboard can create these files again.
    return undefined
  }
}
