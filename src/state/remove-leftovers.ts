import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** Names of our temporary files: they contain the process id, random digits or both. */
const TEMPORARY = /\.(?:\d+|\d+-\d+|\d+-[0-9a-f]{8}|[0-9a-f]{8})\.tmp$/
/** A writer renames its temporary file within this time. */
const OLD_MS = 10 * 60_000
/** Folders deeper than this are not searched. */
export const MAX_DEPTH = 3

/**
 * Deletes temporary files that a killed process left in these folders.
 * @param matches decides which files of a folder may be deleted; default: all files named like our temporary files
 */
export async function removeLeftovers(
  folder: string,
  matches: (name: string) => boolean = () => true,
  depth = 0,
): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && depth < MAX_DEPTH) await removeLeftovers(path, matches, depth + 1)
    else if (entry.isFile() && TEMPORARY.test(entry.name) && matches(entry.name)) await removeOld(path)
  }
}

async function removeOld(path: string): Promise<void> {
  // Another process may have deleted it.
  const found = await stat(path).catch(() => undefined)
  if (found && Date.now() - found.mtimeMs > OLD_MS) await rm(path, { force: true }).catch(() => undefined)
}
