import { constants, promises as fs } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { ToolError } from '../core/errors.ts'
import { findNearest } from '../core/tool-names.ts'
import { moveEntry, type RemoveResult, removeEntry } from './change-files.ts'
import { toFileError } from './file-errors.ts'
import { createFolderReader, type FolderEntry, type OpenFolder } from './folder-reader.ts'
import { type WalkOptions, walkFolders } from './folder-walk.ts'
import { createFence, type Fence, type FenceOptions } from './path-fence.ts'
import { pinFolder } from './pinned-folders.ts'
import { checkPathText, isInside, LINUX, nearestFolder, realForm, realPathOf } from './real-path.ts'
import { isSqliteCompanion } from './sqlite-companions.ts'
import {
  type FileData,
  makeFolder,
  type WriteOptions,
  type WriteResult,
  type WriteTarget,
  writeFile,
} from './write-file.ts'

export type { FolderEntry, OpenFolder } from './folder-reader.ts'
export type { HeldFolder, WalkOptions } from './folder-walk.ts'

/** Relative paths start at the first root. */
export interface PathsOptions extends FenceOptions {
  /** Roots that may be written; default all. */
  readonly writeRoots?: readonly string[]
  readonly readonly?: boolean
  /** Part of the configuration that messages name; default `modules.filesystem.config`. */
  readonly setting?: string
  /** The setting for the roots, for messages; default `roots` of `setting`. */
  readonly rootsSetting?: string
}

export interface OpenFile extends Pick<FileFacts, 'path' | 'size' | 'mtime' | 'mode'> {
  readonly handle: FileHandle
}

/**
 * File access for tools. Every check is made on what was actually opened, so neither `..` nor a link nor a swapped
 * folder leads out of the roots. Failures are ToolErrors: E_VALIDATION, E_PATH_OUTSIDE_ROOT, E_PATH_DENIED,
 * E_NOT_REGULAR_FILE, E_READ_ONLY, E_NOT_FOUND.
 */
export interface Paths {
  readonly roots: readonly string[]
  /** Passes an open regular file to `use` and closes it afterwards. Never blocks on a pipe or device. */
  readFile<T>(path: string, use: (file: OpenFile) => Promise<T>): Promise<T>
  listFolder(path: string, options?: { readonly signal?: AbortSignal }): Promise<OpenFolder>
  /** Everything below a folder, each folder before its content. Links are listed but not followed. */
  walk(path: string, options?: WalkOptions | WalkOptions['skip']): AsyncGenerator<FolderEntry>
  /** Facts about a path. Links are followed. */
  stat(path: string): Promise<FileFacts>
  /** Replaces a file atomically, or appends to it. Never writes through a link. */
  writeFile(path: string, data: FileData, options?: WriteOptions): Promise<WriteResult>
  makeFolder(path: string, options?: { readonly parents?: boolean }): Promise<WriteResult>
  /** Removes a file, a link or a folder. A folder that contains something protected is left unchanged. */
  remove(path: string, options?: { readonly recursive?: boolean; readonly signal?: AbortSignal }): Promise<RemoveResult>
  /** Renames a file or folder, and creates missing folders. `overwrite` allows replacing an existing file. */
  move(from: string, to: string, options?: { readonly overwrite?: boolean }): Promise<WriteResult>
}

export interface FileFacts {
  /** Path in results: relative to the first root, with `/`; absolute below the others. */
  readonly path: string
  readonly kind: 'file' | 'dir' | 'other'
  /** Size according to the file system; it may change before a file is read. */
  readonly size: number
  readonly mode: number
  /** Number of hard links; more than one means that the file has other names. */
  readonly names: number
  readonly mtime: Date
  readonly atime: Date
  readonly birthtime: Date
}

const { O_RDONLY, O_NONBLOCK = 0, O_NOCTTY = 0 } = constants
/** Entries below these folders look like files but give access to the system. */
const PSEUDO = /^\/(?:proc|sys|dev)(?:\/|$)/

export function createPaths(options: PathsOptions): Paths {
  const { setting = 'modules.filesystem.config' } = options
  const { rootsSetting = `${setting}.roots` } = options
  const roots = options.roots.map((root) => resolve(root))
  const writeRoots = (options.writeRoots ?? roots).map((root) => resolve(root))
  const getFence = createFence({ ...options, roots })
  const folders = createFolderReader(verify)

  const createOutsideError = (shown: string): ToolError =>
    new ToolError(`'${shown}' is outside the allowed folders (${rootsSetting}).`, {
      code: 'E_PATH_OUTSIDE_ROOT',
      hint: `Use a path inside them; "." is the first.${roots.length > 1 ? ' List it to see the others.' : ''}`,
    })
  const createProtectedError = (shown: string, why: string): ToolError =>
    new ToolError(`'${shown}' is protected${why}.`, { code: 'E_PATH_DENIED', hint: 'Use another path.' })
  const createDeniedError = async (shown: string, fence: Fence, path: string, root: string): Promise<ToolError> => {
    const by = await fence.deniedBy(path, root)
    return createProtectedError(shown, by === 'fixed' ? ': it is always refused' : ` (${setting}.${by})`)
  }

  /** Resolves a path and checks it by its text and links, before anything is opened. */
  async function locate(path: string): Promise<{ readonly absolute: string; readonly fence: Fence }> {
    checkPathText(path)
    const base = roots[0]
    if (base === undefined) throw createOutsideError(path)
    const absolute = resolve(
      base,
      path.replace(/^~(?=\/|$)/, () => homedir()),
    )
    const fence = await getFence()
    if (fence.roots[0]?.moved)
      throw new ToolError(`The allowed folder is not where it was when Pegboard started (${rootsSetting}).`, {
        code: 'E_PATH_OUTSIDE_ROOT',
        hint: 'The operator removes the link that leads elsewhere, or restarts Pegboard.',
      })
    if (fence.roots[0]?.real === undefined)
      throw new ToolError(`The allowed folder does not exist yet (${rootsSetting}).`, {
        code: 'E_NOT_FOUND',
        hint: 'The operator must create it.',
      })
    const root = fence.roots.find(
      ({ configured, real }) => isInside(absolute, configured) || (real !== undefined && isInside(absolute, real)),
    )
    if (!root) throw createOutsideError(path)
    const lexical = isInside(absolute, root.configured) ? root.configured : (root.real as string)
    // A denied name is denied whatever it links to.
    if (fence.isDenied(absolute, lexical)) throw await createDeniedError(path, fence, absolute, lexical)
    // Behind a link that leads out of the roots, not even existence may be revealed.
    if (fence.rootOf(await realForm(absolute)) === undefined) throw createOutsideError(path)
    return { absolute, fence }
  }

  /** Checks the real path of what was opened. Returns its root. */
  async function verify(real: string, fence: Fence, shown: string): Promise<string> {
    const root = fence.rootOf(real)
    if (root === undefined) throw createOutsideError(shown)
    if (fence.isDenied(real, root)) throw await createDeniedError(shown, fence, real, root)
    if (LINUX && PSEUDO.test(real))
      throw new ToolError(`'${shown}' is not a regular file.`, { code: 'E_NOT_REGULAR_FILE' })
    return root
  }

  /** Undefined if no name in the folder is similar. */
  async function createMisspelledError(shown: string, absolute: string, fence: Fence): Promise<ToolError | undefined> {
    const folder = await folders.list(dirname(shown), dirname(absolute), fence).catch(() => undefined)
    const [near] = findNearest(basename(shown), folder?.entries.map(({ name }) => name) ?? [], 2, 1)
    if (near === undefined) return undefined
    return new ToolError(`'${shown}' does not exist.`, {
      code: 'E_NOT_FOUND',
      hint: `Did you mean '${join(dirname(shown), near)}'?`,
    })
  }

  /** Opens any entry without blocking, and checks it. */
  async function openChecked<T>(
    path: string,
    use: (handle: FileHandle, real: string, fence: Fence) => Promise<T>,
  ): Promise<T> {
    const { absolute, fence } = await locate(path)
    const handle = await fs
      .open(absolute, O_RDONLY | O_NONBLOCK | O_NOCTTY)
      .catch(async (error: NodeJS.ErrnoException) => {
        throw (
          (error.code === 'ENOENT' && (await createMisspelledError(path, absolute, fence))) || toFileError(error, path)
        )
      })
    try {
      const real = await realPathOf(handle, absolute)
      await verify(real, fence, path)
      return await use(handle, real, fence)
    } finally {
      await handle.close()
    }
  }

  const readFile = <T>(path: string, use: (file: OpenFile) => Promise<T>): Promise<T> =>
    openChecked(path, async (handle, real, fence) => {
      const stat = await handle.stat()
      if (!stat.isFile())
        throw new ToolError(`'${path}' is ${stat.isDirectory() ? 'a folder' : 'not a regular file'}.`, {
          code: 'E_NOT_REGULAR_FILE',
        })
      return await use({ handle, path: fence.nameOf(real), size: stat.size, mtime: stat.mtime, mode: stat.mode })
    })

  async function checkWrite(shown: string, real: string, fence: Fence, kind?: 'folder'): Promise<void> {
    const root = await verify(real, fence, shown)
    const writable = await Promise.all(writeRoots.map(pinFolder))
    if (!writable.some((folder) => isInside(real, folder)))
      throw new ToolError(`'${shown}' may be read, not written.`, {
        code: 'E_READ_ONLY',
        hint: `${setting}.write_roots says where writing is allowed.`,
      })
    if (kind === undefined && (await isSqliteCompanion(real)))
      throw createProtectedError(shown, ': it belongs to the SQLite database beside it, and only SQLite writes it')
    if (!fence.isProtected(real, root, kind)) return
    throw fence.isOwn(real, root)
      ? createProtectedError(shown, ': Pegboard runs or trusts it, so no tool writes it')
      : createProtectedError(shown, ': it may be read, never written')
  }

  /** Throws for a root that is a folder. A root that is a file is written in place if another root contains it. */
  async function refuseRoot(shown: string, absolute: string, fence: Fence): Promise<void> {
    const isRoot = fence.roots.some(({ configured, real }) => absolute === configured || absolute === real)
    if (!isRoot || !(await isFolder(absolute))) return
    await folders.use(shown, absolute, fence, async (_anchor, real) => {
      throw new ToolError(`'${fence.nameOf(real)}' is one of the allowed folders itself and exists already.`, {
        code: 'E_NOT_REGULAR_FILE',
        hint: 'Name something in it.',
      })
    })
  }

  /** Passes the checked folder and the name of a new or existing entry to `use`, which may write there. */
  async function withTarget<T>(path: string, use: (target: WriteTarget) => Promise<T>): Promise<T> {
    const { absolute, fence } = await locate(path)
    if (options.readonly)
      throw new ToolError('Writing is switched off.', {
        code: 'E_READ_ONLY',
        hint: `Set ${setting}.readonly to false.`,
      })
    await refuseRoot(path, absolute, fence)
    const existing = await nearestFolder(dirname(absolute))
    const missing = relative(existing, dirname(absolute)).split(sep).filter(Boolean)
    return await folders.use(path, existing, fence, (anchor, real) =>
      use({
        shown: path,
        anchor,
        real,
        missing,
        name: basename(absolute),
        checkWrite: (entryPath, kind) => checkWrite(path, entryPath, fence, kind),
        isGuarded: (entryPath, kind) => isGuarded(entryPath, fence, kind),
        nameOf: fence.nameOf,
        inFolder: (outer, name, then) => folders.use(path, join(outer, name), fence, then),
      }),
    )
  }

  return {
    roots,
    readFile,
    async listFolder(path, { signal } = {}) {
      const { absolute, fence } = await locate(path)
      return await folders.list(path, absolute, fence, signal)
    },
    async *walk(path, how = {}) {
      const { absolute, fence } = await locate(path)
      yield* walkFolders(
        folders,
        { path, absolute, base: roots[0] ?? '' },
        fence,
        typeof how === 'function' ? { skip: how } : how,
      )
    },
    stat: (path) =>
      openChecked(path, async (handle, real, fence) => {
        const stat = await handle.stat()
        return {
          path: fence.nameOf(real),
          kind: stat.isFile() ? 'file' : stat.isDirectory() ? 'dir' : 'other',
          size: stat.size,
          mode: stat.mode & 0o7777,
          names: stat.nlink,
          mtime: stat.mtime,
          atime: stat.atime,
          birthtime: stat.birthtime,
        }
      }),
    writeFile: (path, data, writeOptions = {}) => withTarget(path, (placed) => writeFile(placed, data, writeOptions)),
    makeFolder: (path, how = {}) => withTarget(path, (placed) => makeFolder(placed, how.parents ?? true)),
    remove: (path, how = {}) => withTarget(path, (placed) => removeEntry(placed, how)),
    move: (from, to, how = {}) =>
      withTarget(from, (source) => withTarget(to, (target) => moveEntry(source, target, how.overwrite ?? false))),
  }
}

/** True if a path is outside the roots, denied or protected, or if an own file is below it. */
function isGuarded(path: string, fence: Fence, kind?: 'folder'): boolean {
  const root = fence.rootOf(path)
  return (
    root === undefined || fence.isDenied(path, root) || fence.isProtected(path, root, kind) || fence.containsOwn(path)
  )
}

const isFolder = async (path: string): Promise<boolean> => {
  try {
    return (await fs.stat(path)).isDirectory()
  } catch {
    return false
  }
}
