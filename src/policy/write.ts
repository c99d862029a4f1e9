import { constants, promises as fs, type Stats } from 'node:fs'
import { join } from 'node:path'
import { ToolError } from '../core/errors.ts'
import { reported } from './errno.ts'
import { noteUnfinished, temporaryName } from './unfinished.ts'

const { O_WRONLY, O_CREAT, O_EXCL, O_APPEND, O_NONBLOCK = 0, O_NOFOLLOW = 0 } = constants

export interface WriteOptions {
  /** At the end of what is there, instead of in its place. */
  readonly append?: boolean
  /** With append: what has arrived stays, even if the rest fails. */
  readonly keep?: boolean
  /** Make the folders on the way; default true. */
  readonly createFolders?: boolean
  /** Refuse if something is there already. */
  readonly exclusive?: boolean
  /** Refuse unless what is there still has this size and time. */
  readonly expect?: { readonly size: number; readonly mtime: Date }
  /** The mode of a new file; default as the system makes them. */
  readonly mode?: number
}

/** What a file becomes: at once, or as it arrives; when the pieces fail nothing is changed. */
export type FileData = Uint8Array | string | AsyncIterable<Uint8Array>

/** A checked place: an existing folder, the folders that are missing below it, and a name. */
export interface Placed {
  /** The path as the caller wrote it. */
  readonly shown: string
  /** Reaches the existing folder itself, even if its path changes meanwhile. */
  readonly anchor: string
  readonly real: string
  readonly missing: readonly string[]
  readonly name: string
  /** @throws ToolError unless this real path may be written, or a folder be made there */
  checkWrite(real: string, kind?: 'folder'): Promise<void>
  /** Whether a real path is one that must not be touched. */
  isGuarded(real: string, kind?: 'folder'): boolean
  /** How results name a real path. */
  nameOf(real: string): string
  /** Opens a folder just below an anchored one, checks it, and anchors it. */
  inner<T>(anchor: string, name: string, then: (anchor: string, real: string) => Promise<T>): Promise<T>
}

export interface Written {
  readonly path: string
  /** False when something was there before. */
  readonly created: boolean
}

/** Writes through a temporary file in the same folder, so that readers see the old text or the new, never a part. */
export async function writeFile(placed: Placed, data: FileData, options: WriteOptions): Promise<Written> {
  const { shown, missing, real, name } = placed
  await placed.checkWrite(join(real, ...missing, name))
  if (missing.length > 0 && options.createFolders === false)
    throw new ToolError(`The folder of '${shown}' does not exist.`, {
      code: 'E_NOT_FOUND',
      hint: 'Make it first, or let create_dirs be true.',
    })
  return await descend(placed, missing, async (anchor, folder) => {
    const target = join(anchor, name)
    const before = await reported(shown, () => lstatOrNone(target))
    if (before) checkTarget(before, shown)
    if (before && options.exclusive) throw taken(shown)
    const { expect } = options
    if (expect && (before?.size !== expect.size || before.mtime.getTime() !== expect.mtime.getTime()))
      throw new ToolError(`'${shown}' was changed by somebody else meanwhile.`, {
        hint: 'Read it again, then try again.',
      })
    if (before) await reported(shown, () => fs.access(target, constants.W_OK))
    await reported(shown, () =>
      options.append && before
        ? append(target, shown, data, options.keep ?? false)
        : replace(anchor, folder, target, data, before?.mode ?? options.mode),
    )
    return { path: placed.nameOf(join(folder, name)), created: !before }
  })
}

/** Makes a folder; one that is there already is left as it is. */
export async function makeFolder(placed: Placed, parents: boolean): Promise<Written> {
  const { shown, missing, real, name } = placed
  await placed.checkWrite(join(real, ...missing, name), 'folder')
  if (missing.length > 0 && !parents)
    throw new ToolError(`The folder above '${shown}' does not exist.`, {
      code: 'E_NOT_FOUND',
      hint: 'Make it first, or let parents be true.',
    })
  return await descend(placed, missing, async (anchor, folder) => {
    const target = join(anchor, name)
    const before = await reported(shown, () => lstatOrNone(target))
    if (before && !before.isDirectory())
      throw new ToolError(`'${shown}' exists and is not a folder.`, {
        code: 'E_NOT_REGULAR_FILE',
        hint: 'Use another name.',
      })
    if (!before) await reported(shown, () => makeOne(target))
    return { path: placed.nameOf(join(folder, name)), created: !before }
  })
}

export function descend<T>(
  placed: Placed,
  missing: readonly string[],
  use: (anchor: string, real: string) => Promise<T>,
): Promise<T> {
  const step = async (anchor: string, real: string, names: readonly string[]): Promise<T> => {
    const [next, ...rest] = names
    if (next === undefined) return await use(anchor, real)
    await reported(placed.shown, () => makeOne(join(anchor, next)))
    return await placed.inner(anchor, next, (inner, where) => step(inner, where, rest))
  }
  return step(placed.anchor, placed.real, missing)
}

async function makeOne(path: string): Promise<void> {
  try {
    await fs.mkdir(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

export function checkTarget(before: Stats, shown: string): void {
  const refuse = (what: string, code: 'E_NOT_REGULAR_FILE' | 'E_PATH_DENIED', hint: string): ToolError =>
    new ToolError(`'${shown}' ${what}.`, { code, hint })
  if (before.isSymbolicLink())
    throw refuse('is a symbolic link', 'E_NOT_REGULAR_FILE', 'Write to the file it leads to.')
  if (!before.isFile()) throw refuse('is not a regular file', 'E_NOT_REGULAR_FILE', 'Use another name.')
  if (before.nlink > 1)
    throw refuse('has more than one name (hard links), some perhaps elsewhere', 'E_PATH_DENIED', 'Write to a new file.')
}

export const taken = (shown: string): ToolError =>
  new ToolError(`'${shown}' exists already.`, { hint: 'Use another name, or overwrite: true for a file.' })

async function replace(
  anchor: string,
  folder: string,
  target: string,
  data: FileData,
  mode: number | undefined,
): Promise<void> {
  const name = temporaryName()
  const temporary = join(anchor, name)
  const finished = noteUnfinished(join(folder, name))
  try {
    await replaceBy(temporary, target, data, mode)
  } finally {
    finished()
  }
}

async function replaceBy(temporary: string, target: string, data: FileData, mode: number | undefined): Promise<void> {
  const handle = await fs.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
  try {
    try {
      await pour(handle, data)
      if (mode !== undefined) await handle.chmod(mode & 0o7777)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await fs.rename(temporary, target)
  } catch (error) {
    await fs.rm(temporary, { force: true })
    throw error
  }
}

async function pour(handle: fs.FileHandle, data: FileData): Promise<void> {
  if (typeof data === 'string' || data instanceof Uint8Array) await handle.writeFile(data)
  else for await (const part of data) await handle.writeFile(part)
}

async function append(target: string, shown: string, data: FileData, keep: boolean): Promise<void> {
  const handle = await fs.open(target, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK)
  try {
    // What was looked at may be another file by now.
    const stat = await handle.stat()
    checkTarget(stat, shown)
    const { size } = stat
    try {
      await pour(handle, data)
      if (keep) await handle.sync()
    } catch (error) {
      // Half of an addition is worse than none, unless somebody means to go on with it.
      if (!keep) await handle.truncate(size)
      throw error
    }
  } finally {
    await handle.close()
  }
}

export async function lstatOrNone(path: string): Promise<Stats | undefined> {
  try {
    return await fs.lstat(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
