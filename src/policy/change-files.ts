import { promises as fs, type Stats } from 'node:fs'
import { join, sep } from 'node:path'
import { ToolError } from '../core/errors.ts'
import { convertErrors } from './file-errors.ts'
import {
  checkTarget,
  createExistsError,
  lstatOrNone,
  makeFolders,
  type WriteResult,
  type WriteTarget,
} from './write-file.ts'

export interface RemoveResult {
  readonly path: string
  /** Number of files, links and folders removed. */
  readonly count: number
}

type InFolder = WriteTarget['inFolder']

/** Removes an entry of a checked folder. Everything is checked before anything is changed. */
export async function removeEntry(
  target: WriteTarget,
  { recursive = false, signal }: { readonly recursive?: boolean; readonly signal?: AbortSignal },
): Promise<RemoveResult> {
  const { shown, anchor, real, name } = target
  const stats = await statExisting(target)
  if (stats.isDirectory()) {
    if (!recursive) {
      await convertErrors(shown, () => fs.rmdir(join(anchor, name)))
      return { path: target.nameOf(join(real, name)), count: 1 }
    }
    await checkTree(target, join(real, name))
  }
  const count = await removeTree(shown, target.inFolder, anchor, real, name, signal)
  return { path: target.nameOf(join(real, name)), count }
}

/** Renames an entry. Everything in a moved folder must be allowed to move, under the old and the new name. */
export async function moveEntry(source: WriteTarget, target: WriteTarget, overwrite: boolean): Promise<WriteResult> {
  const stats = await statExisting(source)
  const from = join(source.real, source.name)
  const to = join(target.real, ...target.missing, target.name)
  await target.checkWrite(to, kindOf(stats))
  if (to === from || to.startsWith(`${from}${sep}`))
    throw new ToolError(`'${target.shown}' is '${source.shown}' itself, or inside it.`, {
      code: 'E_VALIDATION',
      hint: 'Name another place.',
    })
  if (stats.isDirectory()) await checkTree(source, from, to)
  return await makeFolders(target, target.missing, async (anchor, folder) => {
    const place = join(anchor, target.name)
    const existing = await convertErrors(target.shown, () => lstatOrNone(place))
    if (existing && (!overwrite || stats.isDirectory())) throw createExistsError(target.shown)
    if (existing) checkTarget(existing, target.shown)
    await convertErrors(source.shown, () => fs.rename(join(source.anchor, source.name), place))
    return { path: target.nameOf(join(folder, target.name)), created: !existing }
  })
}

const createProtectedError = (shown: string): ToolError =>
  new ToolError(`'${shown}' holds something protected.`, {
    code: 'E_PATH_DENIED',
    hint: 'Name its entries one by one. Protected entries stay.',
  })

async function statExisting(target: WriteTarget) {
  const { shown, anchor, real, missing, name } = target
  const stats = missing.length > 0 ? undefined : await convertErrors(shown, () => lstatOrNone(join(anchor, name)))
  await target.checkWrite(join(real, ...missing, name), stats && kindOf(stats))
  if (!stats)
    throw new ToolError(`'${shown}' does not exist.`, {
      code: 'E_NOT_FOUND',
      hint: 'List its folder to see what is there.',
    })
  // The entry may be a link or folder on the way to a protected path. Replacing it would change where that path leads.
  if (target.isGuarded(join(real, name), kindOf(stats))) throw createProtectedError(shown)
  return stats
}

/** @throws ToolError if anything below the folder is protected, at its old or new place */
async function checkTree(target: WriteTarget, folder: string, newFolder = folder): Promise<void> {
  const checkFolder = (folder: string, newFolder: string): Promise<void> =>
    convertErrors(target.shown, async () => {
      for await (const entry of await fs.opendir(folder)) {
        const [path, newPath] = [join(folder, entry.name), join(newFolder, entry.name)]
        const kind = kindOf(entry)
        if (target.isGuarded(path, kind) || target.isGuarded(newPath, kind)) throw createProtectedError(target.shown)
        if (entry.isDirectory()) await checkFolder(path, newPath)
      }
    })
  await checkFolder(folder, newFolder)
}

const kindOf = (entry: Pick<Stats, 'isDirectory'>): 'folder' | undefined => (entry.isDirectory() ? 'folder' : undefined)

/** Removes a tree. Opens and checks each folder before it continues there, so that a swapped link cannot lead elsewhere. */
async function removeTree(
  shown: string,
  inFolder: InFolder,
  anchor: string,
  real: string,
  name: string,
  signal: AbortSignal | undefined,
): Promise<number> {
  signal?.throwIfAborted()
  const path = join(anchor, name)
  const stats = await convertErrors(shown, () => lstatOrNone(path))
  if (!stats) return 0
  if (!stats.isDirectory()) {
    await convertErrors(shown, () => fs.unlink(path))
    return 1
  }
  const count = await inFolder(anchor, name, async (folder, realFolder) => {
    if (realFolder !== join(real, name))
      throw new ToolError(`'${shown}' was changed by another program meanwhile.`, { hint: 'Try again.' })
    let removed = 0
    for (const entry of await convertErrors(shown, () => fs.readdir(folder)))
      removed += await removeTree(shown, inFolder, folder, realFolder, entry, signal)
    return removed
  })
  await convertErrors(shown, () => fs.rmdir(path))
  return count + 1
}
