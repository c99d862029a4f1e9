import { constants, promises as fs } from 'node:fs'
import { parse, resolve } from 'node:path'
import { ToolError } from '../core/errors.ts'
import { ownFilesIn } from './own-files.ts'
import { pinFolder } from './pinned-folders.ts'
import { isInside, realForm } from './real-path.ts'

/** A file that other code, such as a database library, opens by path. */
export interface FileToOpen {
  /** The real path, without links. */
  readonly path: string
  /** Device and inode, which the code that opens the file compares: a folder can be replaced at any moment. */
  readonly dev: string
  readonly ino: string
}

/**
 * Finds where the file really is. Call it before each use, because anyone who can write to a folder can put a link
 * there at any time. A file named below one of `folders` (outer ones first) must be in that folder. Pegboard's own
 * files are always refused.
 * @param setting part of the configuration that messages name
 * @param make creates an empty file if there is none
 * @throws ToolError E_PATH_OUTSIDE_ROOT, E_PATH_DENIED, E_NOT_REGULAR_FILE, and errors of the file system
 */
export async function fileToOpen(
  path: string,
  {
    folders,
    setting,
    make: create = false,
  }: { readonly folders: readonly string[]; readonly setting: string; readonly make?: boolean },
): Promise<FileToOpen> {
  const real = await realForm(resolve(path))
  let start: string | undefined
  for (const folder of folders.map((one) => resolve(one))) {
    const realFolder = await pinFolder(folder)
    if (!isInside(resolve(path), folder) && !isInside(resolve(path), realFolder)) continue
    if (!isInside(real, realFolder))
      throw new ToolError('A link on the way to the file leads out of its folder.', {
        code: 'E_PATH_OUTSIDE_ROOT',
        hint: `The operator names the file where it really is (${setting}).`,
      })
    // Resolved from the outermost folder, because an inner one may itself have been replaced by a link.
    start ??= realFolder
  }
  start ??= parse(real).root
  const ownFiles = await ownFilesIn([start])
  if (ownFiles.isSecret(real, start) || ownFiles.isFixed(real, start))
    throw new ToolError('The file belongs to Pegboard itself.', {
      code: 'E_PATH_DENIED',
      hint: `Set ${setting} to another file.`,
    })
  const stats = await fs.lstat(real, { bigint: true }).catch(async (error: NodeJS.ErrnoException) => {
    if (!create || error.code !== 'ENOENT') throw error
    return await createFile(real)
  })
  if (!stats.isFile())
    throw new ToolError('The path is not a regular file.', { code: 'E_NOT_REGULAR_FILE', hint: 'Name another one.' })
  return { path: real, dev: String(stats.dev), ino: String(stats.ino) }
}

async function createFile(path: string) {
  const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW = 0 } = constants
  const file = await fs.open(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o666)
  try {
    return await file.stat({ bigint: true })
  } finally {
    await file.close()
  }
}
