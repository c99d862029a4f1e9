import { statSync } from 'node:fs'
import { dirname } from 'node:path'

let allowed = false

/** From now on files and folders that others may write are used all the same: the operator asked for that. */
export function allowInsecurePermissions(): void {
  allowed = true
}

/**
 * Why somebody else on this machine could write a file or folder, and how to end that; undefined where nobody can, where the
 * system has no such rights, and for one that does not exist. Root can write everything anyway.
 */
export function writtenByOthers(path: string): string | undefined {
  const own = process.getuid?.()
  if (own === undefined || allowed) return undefined
  const facts = statSync(path, { throwIfNoEntry: false })
  if (!facts) return undefined
  const { uid, mode } = facts
  // In a folder such as /tmp only the owner of a file can replace it.
  const isSticky = facts.isDirectory() && (mode & 0o1000) !== 0
  if ((mode & 0o002) !== 0 && !isSticky) return `everybody on this machine may write it; to end that: chmod o-w ${path}`
  if (uid === own || uid === 0 || isSticky) return undefined
  return `it belongs to another user (${uid}); make it yours with chown, or run Pegboard as that user`
}

/** The same of a file and the folder that it is in. */
export const replacedByOthers = (file: string): string | undefined =>
  writtenByOthers(file) ?? inFolder(writtenByOthers(dirname(file)))

const inFolder = (why: string | undefined): string | undefined => (why === undefined ? undefined : `its folder: ${why}`)
