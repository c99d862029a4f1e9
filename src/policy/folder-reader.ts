import { constants, type Dirent, promises as fs } from 'node:fs'
import { sep } from 'node:path'
import { setImmediate as yieldTurn } from 'node:timers/promises'
import { ToolError } from '../core/errors.ts'
import { convertErrors, toFileError } from './file-errors.ts'
import type { Fence } from './path-fence.ts'
import { LINUX, realPathOf, realpathOrNone } from './real-path.ts'

export interface FolderEntry {
  readonly name: string
  readonly path: string
  readonly kind: 'file' | 'dir' | 'link' | 'other'
}

export interface OpenFolder {
  readonly path: string
  /** Entries by name, without denied ones. */
  readonly entries: readonly FolderEntry[]
  /** True if the folder has more entries than are read. */
  readonly truncated?: true
}

/** A folder that stays the same while it is open, even if it is renamed. */
export interface AnchoredFolder {
  /** A path to exactly this folder: its descriptor on Linux, its real path elsewhere. */
  readonly anchor: string
  readonly real: string
  close(): Promise<void>
}

/** Opens folders and reads their entries. `shown` is the path in messages. */
export interface FolderReader {
  open(shown: string, absolute: string, fence: Fence): Promise<AnchoredFolder>
  /** Passes an open folder to `then`, and closes it afterwards. */
  use<T>(shown: string, absolute: string, fence: Fence, then: (anchor: string, real: string) => Promise<T>): Promise<T>
  list(shown: string, absolute: string, fence: Fence, signal?: AbortSignal): Promise<OpenFolder>
}

const { O_RDONLY, O_DIRECTORY = 0 } = constants

/** Entries processed before the event loop gets a turn. */
export const BATCH = 500
/** Maximum number of entries read per folder; sorting more would take seconds and memory. */
const MAX_ENTRIES = 50_000
/** Most file systems report this size for a folder with a few thousand entries. */
const LARGE_FOLDER = 128 * 1024

/** @param verify checks the real path of a folder that was opened. Throws if it may not be used */
export function createFolderReader(
  verify: (real: string, fence: Fence, shown: string) => Promise<unknown>,
): FolderReader {
  async function open(shown: string, absolute: string, fence: Fence): Promise<AnchoredFolder> {
    if (!LINUX) {
      const real = await convertErrors(shown, () => fs.realpath(absolute))
      await verify(real, fence, shown)
      return { anchor: real, real, close: async () => undefined }
    }
    const handle = await fs.open(absolute, O_RDONLY | O_DIRECTORY).catch(async (error: NodeJS.ErrnoException) => {
      const file = error.code === 'ENOTDIR' ? await realpathOrNone(absolute) : undefined
      if (file === undefined) throw toFileError(error, shown)
      await verify(file, fence, shown)
      throw new ToolError(`'${shown}' is a file, not a folder.`, {
        code: 'E_NOT_FOUND',
        hint: 'Name a folder; for a file there are read and stat.',
      })
    })
    try {
      const real = await realPathOf(handle, absolute)
      await verify(real, fence, shown)
      return { anchor: `/proc/self/fd/${handle.fd}`, real, close: () => handle.close() }
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  async function use<T>(
    shown: string,
    absolute: string,
    fence: Fence,
    then: (anchor: string, real: string) => Promise<T>,
  ): Promise<T> {
    const { anchor, real, close } = await open(shown, absolute, fence)
    try {
      return await then(anchor, real)
    } finally {
      await close()
    }
  }

  return {
    open,
    use,
    list: (shown, absolute, fence, signal) =>
      use(shown, absolute, fence, (anchor, real) => readEntries(shown, { anchor, real }, fence, signal)),
  }
}

/** Reads the entries of an open folder, without denied ones. */
export async function readEntries(
  shown: string,
  { anchor, real }: Pick<AnchoredFolder, 'anchor' | 'real'>,
  fence: Fence,
  signal: AbortSignal | undefined,
): Promise<OpenFolder> {
  const root = fence.rootOf(real) as string
  const path = fence.nameOf(real)
  const start = path === '.' ? '' : `${path}/`
  const within = real.endsWith(sep) ? real : real + sep
  const entries: FolderEntry[] = []
  let [truncated, count] = [false, 0]
  const addEntry = (entry: Dirent): void => {
    if (!fence.isDenied(within + entry.name, root))
      entries.push({ name: entry.name, path: start + entry.name, kind: kindOf(entry) })
  }
  await convertErrors(shown, async () => {
    // Reading at once is much faster, but a large folder is read in parts so that other work gets a turn.
    if ((await fs.stat(anchor)).size < LARGE_FOLDER)
      for (const entry of await fs.readdir(anchor, { withFileTypes: true })) addEntry(entry)
    // The loop closes the folder.
    else
      for await (const entry of await fs.opendir(anchor, { bufferSize: BATCH })) {
        if (count >= MAX_ENTRIES) {
          truncated = true
          break
        }
        if (count++ % BATCH === 0) {
          signal?.throwIfAborted()
          await yieldTurn()
        }
        addEntry(entry)
      }
  })
  entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  return { path, entries, ...(truncated ? { truncated } : {}) }
}

const kindOf = (entry: Dirent): FolderEntry['kind'] =>
  entry.isFile() ? 'file' : entry.isDirectory() ? 'dir' : entry.isSymbolicLink() ? 'link' : 'other'
