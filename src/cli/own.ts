import { closeSync, fstatSync, openSync, readFileSync, statSync } from 'node:fs'

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

/**
 * Why somebody else could write a file, and how that ends; undefined where nobody can, and where the system has no such
 * rights. Root can write everything anyway.
 */
export function writtenByOthers(file: string): string | undefined {
  const own = process.getuid?.()
  if (own === undefined) return undefined
  const { uid, mode } = statSync(file)
  if ((mode & 0o002) !== 0) return `everybody on this machine may write it; to end that: chmod o-w ${file}`
  if (uid === own || uid === 0) return undefined
  return `it belongs to another user (${uid}); make it yours with chown, or run Pegboard as that user`
}
