import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** Names of our temporary files: with the number of the process, random digits, or both. */
const TEMPORARY = /\.(?:\d+|\d+-\d+|\d+-[0-9a-f]{8}|[0-9a-f]{8})\.tmp$/
/** Whoever writes one has it renamed in less. */
const OLD_MS = 10 * 60_000
/** From here on no folder in a folder is looked into. */
export const MAX_DEPTH = 3

/**
 * Deletes temporary files that a process left in these folders when it was killed.
 * @param wanted which files of a folder may be deleted at all; default all that are named as ours are
 */
export async function removeLeftovers(
  folder: string,
  wanted: (name: string) => boolean = () => true,
  depth = 0,
): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && depth < MAX_DEPTH) await removeLeftovers(path, wanted, depth + 1)
    else if (entry.isFile() && TEMPORARY.test(entry.name) && wanted(entry.name)) await removeOld(path)
  }
}

async function removeOld(path: string): Promise<void> {
  // Another process may be faster.
  const found = await stat(path).catch(() => undefined)
  if (found && Date.now() - found.mtimeMs > OLD_MS) await rm(path, { force: true }).catch(() => undefined)
}
