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

type InnerTarget = WriteTarget['inner']

/** Removes an entry of a checked folder. Everything is checked before anything is changed. */
export async function removeEntry(
  placed: WriteTarget,
  { recursive = false, signal }: { readonly recursive?: boolean; readonly signal?: AbortSignal },
): Promise<RemoveResult> {
  const { shown, anchor, real, name } = placed
  const target = await openExisting(placed)
  if (target.isDirectory()) {
    if (!recursive) {
      await convertErrors(shown, () => fs.rmdir(join(anchor, name)))
      return { path: placed.nameOf(join(real, name)), count: 1 }
    }
    await checkTree(placed, join(real, name))
  }
  const count = await removeTree(shown, placed.inner, anchor, real, name, signal)
  return { path: placed.nameOf(join(real, name)), count }
}

/** Renames an entry. Everything in a moved folder must be allowed to move, under the old and the new name. */
export async function moveEntry(source: WriteTarget, target: WriteTarget, overwrite: boolean): Promise<WriteResult> {
  const facts = await openExisting(source)
  const from = join(source.real, source.name)
  const to = join(target.real, ...target.missing, target.name)
  await target.checkWrite(to, kindOf(facts))
  if (to === from || to.startsWith(`${from}${sep}`))
    throw new ToolError(`'${target.shown}' is '${source.shown}' itself, or inside it.`, {
      code: 'E_VALIDATION',
      hint: 'Name another place.',
    })
  if (facts.isDirectory()) await checkTree(source, from, to)
  return await makeFolders(target, target.missing, async (anchor, folder) => {
    const place = join(anchor, target.name)
    const before = await convertErrors(target.shown, () => lstatOrNone(place))
    if (before && (!overwrite || facts.isDirectory())) throw createExistsError(target.shown)
    if (before) checkTarget(before, target.shown)
    await convertErrors(source.shown, () => fs.rename(join(source.anchor, source.name), place))
    return { path: target.nameOf(join(folder, target.name)), created: !before }
  })
}

const holdsProtected = (shown: string): ToolError =>
  new ToolError(`'${shown}' holds something protected.`, {
    code: 'E_PATH_DENIED',
    hint: 'Name its entries one by one. Protected entries stay.',
  })

async function openExisting(placed: WriteTarget) {
  const { shown, anchor, real, missing, name } = placed
  const facts = missing.length > 0 ? undefined : await convertErrors(shown, () => lstatOrNone(join(anchor, name)))
  await placed.checkWrite(join(real, ...missing, name), facts && kindOf(facts))
  if (!facts)
    throw new ToolError(`'${shown}' does not exist.`, {
      code: 'E_NOT_FOUND',
      hint: 'List its folder to see what is there.',
    })
  // A link or folder on the way to a protected path; replacing it would change where the path leads.
  if (placed.isGuarded(join(real, name), kindOf(facts))) throw holdsProtected(shown)
  return facts
}

/** @throws ToolError if anything below the folder is protected, at its old or new place */
async function checkTree(placed: WriteTarget, folder: string, to = folder): Promise<void> {
  const look = (at: string, there: string): Promise<void> =>
    convertErrors(placed.shown, async () => {
      for await (const entry of await fs.opendir(at)) {
        const [here, then] = [join(at, entry.name), join(there, entry.name)]
        const kind = kindOf(entry)
        if (placed.isGuarded(here, kind) || placed.isGuarded(then, kind)) throw holdsProtected(placed.shown)
        if (entry.isDirectory()) await look(here, then)
      }
    })
  await look(folder, to)
}

const kindOf = (one: Pick<Stats, 'isDirectory'>): 'folder' | undefined => (one.isDirectory() ? 'folder' : undefined)

/** Descends only through open folders and checks each, so that a swapped link cannot lead elsewhere. */
async function removeTree(
  shown: string,
  inner: InnerTarget,
  anchor: string,
  real: string,
  name: string,
  signal: AbortSignal | undefined,
): Promise<number> {
  signal?.throwIfAborted()
  const path = join(anchor, name)
  const facts = await convertErrors(shown, () => lstatOrNone(path))
  if (!facts) return 0
  if (!facts.isDirectory()) {
    await convertErrors(shown, () => fs.unlink(path))
    return 1
  }
  const count = await inner(anchor, name, async (folder, where) => {
    if (where !== join(real, name))
      throw new ToolError(`'${shown}' was changed by another program meanwhile.`, { hint: 'Try again.' })
    let gone = 0
    for (const entry of await convertErrors(shown, () => fs.readdir(folder)))
      gone += await removeTree(shown, inner, folder, where, entry, signal)
    return gone
  })
  await convertErrors(shown, () => fs.rmdir(path))
  return count + 1
}
