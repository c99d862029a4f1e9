import { constants, promises as fs, type Stats } from 'node:fs'
import { join } from 'node:path'
import { ToolError } from '../core/errors.ts'
import { convertErrors } from './file-errors.ts'
import { checkFreeSpace } from './free-space.ts'
import { recordUnfinishedWrite, temporaryName } from './unfinished-writes.ts'

const { O_WRONLY, O_CREAT, O_EXCL, O_APPEND, O_NONBLOCK = 0, O_NOFOLLOW = 0 } = constants

export interface WriteOptions {
  /** Append to the file instead of replacing it. */
  readonly append?: boolean
  /** With append: keep what arrived even if the rest fails. */
  readonly keep?: boolean
  /** Create missing folders; default true. */
  readonly createFolders?: boolean
  /** Fail if the file exists. */
  readonly exclusive?: boolean
  /** Fail unless the existing file still has this size and modification time. */
  readonly expect?: { readonly size: number; readonly mtime: Date }
  /** Permissions of a new file; default: the system's. */
  readonly mode?: number
}

/** Content of a file, complete or as a stream. If the stream fails, the file is not changed. */
export type FileData = Uint8Array | string | AsyncIterable<Uint8Array>

/** A checked target: an existing folder, missing folders below it, and a file name. */
export interface WriteTarget {
  /** The path as the caller wrote it. */
  readonly shown: string
  /** A path to the existing folder that stays valid if the folder is renamed. */
  readonly anchor: string
  readonly real: string
  readonly missing: readonly string[]
  readonly name: string
  /** @throws ToolError unless this real path may be written, or a folder created there */
  checkWrite(real: string, kind?: 'folder'): Promise<void>
  /** True if the real path must not be changed. */
  isGuarded(real: string, kind?: 'folder'): boolean
  /** The name of a real path in results. */
  nameOf(real: string): string
  /** Opens a folder directly below an anchored one, checks it, and anchors it. */
  inFolder<T>(anchor: string, name: string, then: (anchor: string, real: string) => Promise<T>): Promise<T>
}

export interface WriteResult {
  readonly path: string
  /** False if the file existed before. */
  readonly created: boolean
}

/** Writes to a temporary file in the same folder and renames it, so that readers never see a partial file. */
export async function writeFile(target: WriteTarget, data: FileData, options: WriteOptions): Promise<WriteResult> {
  const { shown, missing, real, name } = target
  await target.checkWrite(join(real, ...missing, name))
  if (missing.length > 0 && options.createFolders === false)
    throw new ToolError(`The folder of '${shown}' does not exist.`, {
      code: 'E_NOT_FOUND',
      hint: 'Create it first, or set create_dirs to true.',
    })
  return await makeFolders(target, missing, async (anchor, folder) => {
    const path = join(anchor, name)
    const existing = await convertErrors(shown, () => lstatOrNone(path))
    if (existing) checkTarget(existing, shown)
    if (existing && options.exclusive) throw createExistsError(shown)
    const { expect } = options
    if (expect && (existing?.size !== expect.size || existing.mtime.getTime() !== expect.mtime.getTime()))
      throw new ToolError(`'${shown}' was changed by another program meanwhile.`, {
        hint: 'Read it again, then try again.',
      })
    if (existing) await convertErrors(shown, () => fs.access(path, constants.W_OK))
    await convertErrors(shown, () =>
      options.append && existing
        ? append(anchor, path, shown, data, options.keep ?? false)
        : replace(anchor, folder, path, data, existing?.mode ?? options.mode),
    )
    return { path: target.nameOf(join(folder, name)), created: !existing }
  })
}

/** Creates a folder; an existing one is left unchanged. */
export async function makeFolder(target: WriteTarget, parents: boolean): Promise<WriteResult> {
  const { shown, missing, real, name } = target
  await target.checkWrite(join(real, ...missing, name), 'folder')
  if (missing.length > 0 && !parents)
    throw new ToolError(`The folder above '${shown}' does not exist.`, {
      code: 'E_NOT_FOUND',
      hint: 'Create it first, or set parents to true.',
    })
  return await makeFolders(target, missing, async (anchor, folder) => {
    const path = join(anchor, name)
    const existing = await convertErrors(shown, () => lstatOrNone(path))
    if (existing && !existing.isDirectory())
      throw new ToolError(`'${shown}' exists and is not a folder.`, {
        code: 'E_NOT_REGULAR_FILE',
        hint: 'Use another name.',
      })
    if (!existing) await convertErrors(shown, () => makeFolderIfMissing(path))
    return { path: target.nameOf(join(folder, name)), created: !existing }
  })
}

/** Creates the missing folders one below the other, and calls `use` in the last one. */
export function makeFolders<T>(
  target: WriteTarget,
  missing: readonly string[],
  use: (anchor: string, real: string) => Promise<T>,
): Promise<T> {
  const step = async (anchor: string, real: string, names: readonly string[]): Promise<T> => {
    const [next, ...rest] = names
    if (next === undefined) return await use(anchor, real)
    await convertErrors(target.shown, () => makeFolderIfMissing(join(anchor, next)))
    return await target.inFolder(anchor, next, (inner, realFolder) => step(inner, realFolder, rest))
  }
  return step(target.anchor, target.real, missing)
}

async function makeFolderIfMissing(path: string): Promise<void> {
  try {
    await fs.mkdir(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

export function checkTarget(before: Stats, shown: string): void {
  const createTargetError = (what: string, code: 'E_NOT_REGULAR_FILE' | 'E_PATH_DENIED', hint: string): ToolError =>
    new ToolError(`'${shown}' ${what}.`, { code, hint })
  if (before.isSymbolicLink())
    throw createTargetError('is a symbolic link', 'E_NOT_REGULAR_FILE', 'Write to the file it leads to.')
  if (!before.isFile()) throw createTargetError('is not a regular file', 'E_NOT_REGULAR_FILE', 'Use another name.')
  if (before.nlink > 1)
    throw createTargetError(
      'has several hard links, and some may be in other folders',
      'E_PATH_DENIED',
      'Write to a new file.',
    )
}

export const createExistsError = (shown: string): ToolError =>
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
  const removeRecord = recordUnfinishedWrite(join(folder, name))
  try {
    // Outside the inner `try`: if this fails, an existing file must not be removed.
    const handle = await fs.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
    try {
      await writeAndClose(handle, data, anchor, mode)
      await fs.rename(temporary, target)
    } catch (error) {
      await fs.rm(temporary, { force: true }).catch(() => undefined)
      throw error
    }
  } finally {
    removeRecord()
  }
}

async function writeAndClose(
  handle: fs.FileHandle,
  data: FileData,
  folder: string,
  mode: number | undefined,
): Promise<void> {
  try {
    await writeData(handle, data, folder)
    if (mode !== undefined) await handle.chmod(mode & 0o7777)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** How many bytes of a stream are written between two checks of the disk. */
const CHECK_BYTES = 16 * 1024 * 1024

/** @param folder on the disk of the file */
async function writeData(handle: fs.FileHandle, data: FileData, folder: string): Promise<void> {
  if (typeof data === 'string' || data instanceof Uint8Array) {
    await checkFreeSpace(folder, Buffer.byteLength(data))
    return await handle.writeFile(data)
  }
  let unchecked = CHECK_BYTES
  for await (const part of data) {
    unchecked += part.byteLength
    if (unchecked >= CHECK_BYTES) {
      await checkFreeSpace(folder, part.byteLength)
      unchecked = 0
    }
    await handle.writeFile(part)
  }
}

async function append(anchor: string, target: string, shown: string, data: FileData, keep: boolean): Promise<void> {
  const handle = await fs.open(target, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK)
  try {
    // Another file may have taken the place of the checked one.
    const stat = await handle.stat()
    checkTarget(stat, shown)
    const { size } = stat
    try {
      await writeData(handle, data, anchor)
      if (keep) await handle.sync()
    } catch (error) {
      // A partial addition is removed, unless the caller will continue it.
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
