import { promises as fs, type Stats } from 'node:fs'
import { join, sep } from 'node:path'
import { ToolError } from '../core/errors.ts'
import { reported } from './errno.ts'
import { checkTarget, descend, lstatOrNone, type Placed, taken, type Written } from './write.ts'

export interface Removed {
  readonly path: string
  /** Files, links and folders that are gone. */
  readonly count: number
}

type Inner = Placed['inner']

/** Removes an entry of a checked folder. Nothing is touched before all of it was looked at. */
export async function removePlaced(
  placed: Placed,
  { recursive = false, signal }: { readonly recursive?: boolean; readonly signal?: AbortSignal },
): Promise<Removed> {
  const { shown, anchor, real, name } = placed
  const target = await existing(placed)
  if (target.isDirectory()) {
    if (!recursive) {
      await reported(shown, () => fs.rmdir(join(anchor, name)))
      return { path: placed.nameOf(join(real, name)), count: 1 }
    }
    await checkTree(placed, join(real, name))
  }
  const count = await removeTree(shown, placed.inner, anchor, real, name, signal)
  return { path: placed.nameOf(join(real, name)), count }
}

/** Renames an entry. What is in a folder must be free to go, under the old name and under the new one. */
export async function movePlaced(source: Placed, target: Placed, overwrite: boolean): Promise<Written> {
  const facts = await existing(source)
  const from = join(source.real, source.name)
  const to = join(target.real, ...target.missing, target.name)
  await target.checkWrite(to, kindOf(facts))
  if (to === from || to.startsWith(`${from}${sep}`))
    throw new ToolError(`'${target.shown}' is '${source.shown}' itself, or in it.`, {
      code: 'E_VALIDATION',
      hint: 'Name another place.',
    })
  if (facts.isDirectory()) await checkTree(source, from, to)
  return await descend(target, target.missing, async (anchor, folder) => {
    const place = join(anchor, target.name)
    const before = await reported(target.shown, () => lstatOrNone(place))
    if (before && (!overwrite || facts.isDirectory())) throw taken(target.shown)
    if (before) checkTarget(before, target.shown)
    await reported(source.shown, () => fs.rename(join(source.anchor, source.name), place))
    return { path: target.nameOf(join(folder, target.name)), created: !before }
  })
}

const holdsProtected = (shown: string): ToolError =>
  new ToolError(`'${shown}' holds something protected.`, {
    code: 'E_PATH_DENIED',
    hint: 'Name what is in it one by one; what is protected stays.',
  })

async function existing(placed: Placed) {
  const { shown, anchor, real, missing, name } = placed
  const facts = missing.length > 0 ? undefined : await reported(shown, () => lstatOrNone(join(anchor, name)))
  await placed.checkWrite(join(real, ...missing, name), facts && kindOf(facts))
  if (!facts)
    throw new ToolError(`'${shown}' does not exist.`, {
      code: 'E_NOT_FOUND',
      hint: 'List its folder to see what is there.',
    })
  // A link or a folder on the way to something protected: another in its place would lead elsewhere.
  if (placed.isGuarded(join(real, name), kindOf(facts))) throw holdsProtected(shown)
  return facts
}

/** @throws ToolError when something below a folder must not be touched, where it is or where it would come to be */
async function checkTree(placed: Placed, folder: string, to = folder): Promise<void> {
  const look = (at: string, there: string): Promise<void> =>
    reported(placed.shown, async () => {
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

/** Goes down through open folders only, each at the place where it was found, so that no swapped link leads elsewhere. */
async function removeTree(
  shown: string,
  inner: Inner,
  anchor: string,
  real: string,
  name: string,
  signal: AbortSignal | undefined,
): Promise<number> {
  signal?.throwIfAborted()
  const path = join(anchor, name)
  const facts = await reported(shown, () => lstatOrNone(path))
  if (!facts) return 0
  if (!facts.isDirectory()) {
    await reported(shown, () => fs.unlink(path))
    return 1
  }
  const count = await inner(anchor, name, async (folder, where) => {
    if (where !== join(real, name))
      throw new ToolError(`'${shown}' was changed by somebody else meanwhile.`, { hint: 'Try again.' })
    let gone = 0
    for (const entry of await reported(shown, () => fs.readdir(folder)))
      gone += await removeTree(shown, inner, folder, where, entry, signal)
    return gone
  })
  await reported(shown, () => fs.rmdir(path))
  return count + 1
}
