import { resolve } from 'node:path'
import { setImmediate as yieldTurn } from 'node:timers/promises'
import { ToolError } from '../core/errors.ts'
import { BATCH, type FolderEntry, type FolderReader, type OpenFolder, readEntries } from './folder-reader.ts'
import type { Fence } from './path-fence.ts'

export interface WalkOptions {
  /** Ends the walk, even in the middle of a large folder. */
  readonly signal?: AbortSignal
  /** True for folders to leave out. */
  readonly skip?: (entry: FolderEntry) => boolean
  /** Called for each folder before its entries. */
  readonly entered?: (folder: OpenFolder) => Promise<void>
  /**
   * Called for each folder after `entered`, to work in it while the walk continues; a few folders are open at a time.
   * Its errors end the walk.
   */
  readonly inside?: (folder: HeldFolder) => Promise<void>
}

export interface HeldFolder extends OpenFolder {
  /**
   * A path that leads to this folder while it is open, even if the folder is renamed. Its files can be opened below this path
   * safely if links are not followed. On other systems than Linux it is the real path.
   */
  readonly anchor: string
}

/** Maximum number of folders held open for `inside` callbacks. */
const MAX_OPEN_FOLDERS = 8

/** One walk, and the callbacks that run in its folders. A failure ends the walk. */
interface Walk {
  readonly folders: FolderReader
  readonly fence: Fence
  readonly options: WalkOptions
  readonly work: Set<Promise<void>>
  failure: { readonly reason: unknown } | undefined
}

/** Yields everything below a folder, each folder before its content. @param base folder that entry paths are relative to */
export async function* walkFolders(
  folders: FolderReader,
  { path, absolute, base }: { readonly path: string; readonly absolute: string; readonly base: string },
  fence: Fence,
  options: WalkOptions,
): AsyncGenerator<FolderEntry> {
  const walk: Walk = { folders, fence, options, work: new Set(), failure: undefined }
  try {
    // Iterative, because recursion would pass each entry of a folder 500 levels deep through 500 generators.
    const first = await enterFolder(walk, path, absolute)
    const open = [first.entries.values()]
    for (let count = 1; open.length > 0; count++) {
      if (count % BATCH === 0) await yieldTurn()
      options.signal?.throwIfAborted()
      const next = open.at(-1)?.next()
      if (next === undefined || next.done) {
        open.pop()
        continue
      }
      const entry = next.value
      yield entry
      if (entry.kind !== 'dir' || options.skip?.(entry)) continue
      const folder = await enterBelow(walk, entry.path, resolve(base, entry.path))
      if (folder) open.push(folder.entries.values())
    }
  } finally {
    await Promise.all(walk.work)
  }
  if (walk.failure) throw walk.failure.reason
}

/** Opens one folder of a walk, and closes it when its `inside` callback has ended. */
async function enterFolder(walk: Walk, shown: string, absolute: string): Promise<OpenFolder> {
  const { folders, fence, options } = walk
  const { entered, inside, signal } = options
  if (!inside) {
    const folder = await folders.list(shown, absolute, fence, signal)
    await entered?.(folder)
    return folder
  }
  const opened = await folders.open(shown, absolute, fence)
  let work: Promise<void> | undefined
  try {
    const folder = await readEntries(shown, opened, fence, signal)
    await entered?.(folder)
    work = inside({ ...folder, anchor: opened.anchor }).finally(opened.close)
    const finished: Promise<void> = work
      .catch((reason: unknown) => {
        walk.failure ??= { reason }
      })
      .finally(() => walk.work.delete(finished))
    walk.work.add(finished)
    return folder
  } finally {
    if (!work) await opened.close()
  }
}

/** Undefined for a folder that was removed or cannot be read. The walk continues with the rest of the tree. */
async function enterBelow(walk: Walk, path: string, absolute: string): Promise<OpenFolder | undefined> {
  while (walk.work.size >= MAX_OPEN_FOLDERS) await Promise.race(walk.work)
  if (walk.failure) throw walk.failure.reason
  try {
    return await enterFolder(walk, path, absolute)
  } catch (error) {
    if (error instanceof ToolError) return undefined
    throw error
  }
}
