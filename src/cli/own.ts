import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'

/** What is in a file that only this user could have written; undefined for any other, and for one that cannot be read. */
export function readOwn(file: string): Buffer | undefined {
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
    // What is kept in such files can be made again.
    return undefined
  }
}
