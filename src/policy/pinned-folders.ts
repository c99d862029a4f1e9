import { dirname, join, relative, resolve } from 'node:path'
import { isInside, realForm } from './real-path.ts'

/**
 * Real paths of the modules' folders at their first use. Otherwise someone who can write the parent folder could replace one
 * with a link, and the module would use the target of the link. Each app of this process has its own folders.
 */
const pins = new Map<string, Promise<string>>()

/** Pins folders to where they are now, for the life of this process. Folders pinned earlier keep their place. */
export function pinFolders(paths: Iterable<string>): void {
  for (const path of paths) {
    const absolute = resolve(path)
    if (!pins.has(absolute)) pins.set(absolute, realForm(absolute))
  }
}

/** The real path that a folder must have: the one when it was pinned. Pins a folder that is not pinned yet. */
export function pinFolder(path: string): Promise<string> {
  const pin = pins.get(path)
  if (pin) return pin
  const place = resolvePlace(path)
  pins.set(path, place)
  return place
}

/** A folder inside a pinned folder must be in that folder. */
async function resolvePlace(path: string): Promise<string> {
  const real = await realForm(path)
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) {
    const outer = await pins.get(at)
    if (outer === undefined) continue
    return isInside(real, outer) ? real : join(outer, relative(at, path))
  }
  return real
}
