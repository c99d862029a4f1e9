import { statSync } from 'node:fs'
import { dirname } from 'node:path'

let allowed = false

/** Allows files and folders that other users may write; set by the operator. */
export function allowInsecurePermissions(): void {
  allowed = true
}

/**
 * Why another user of this machine could write a file or folder, and how to fix it; undefined if none can, if the
 * system has no such permissions, or if it does not exist. Root is ignored.
 */
export function writtenByOthers(path: string): string | undefined {
  const ownUid = process.getuid?.()
  if (ownUid === undefined || allowed) return undefined
  const stats = statSync(path, { throwIfNoEntry: false })
  if (!stats) return undefined
  const { uid, mode } = stats
  // In a folder such as /tmp only the owner of a file can replace it.
  const isSticky = stats.isDirectory() && (mode & 0o1000) !== 0
  if ((mode & 0o002) !== 0 && !isSticky) return `every user of this machine can write it; run chmod o-w ${path}`
  if (uid === ownUid || uid === 0 || isSticky) return undefined
  return `it belongs to another user (${uid}); make it yours with chown, or run Pegboard as that user`
}

/** Why another user could write or replace a file; see `writtenByOthers`. */
export const replacedByOthers = (file: string): string | undefined =>
  writtenByOthers(file) ?? inFolder(writtenByOthers(dirname(file)))

const inFolder = (why: string | undefined): string | undefined => (why === undefined ? undefined : `its folder: ${why}`)
