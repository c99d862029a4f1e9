import { constants, promises as fs } from 'node:fs'
import { parse, resolve } from 'node:path'
import { ToolError } from '../core/errors.ts'
import { ownFilesIn } from './own-files.ts'
import { isInside, realForm } from './real.ts'

/** A file that something else opens by its path, such as the library of a database. */
export interface FileToOpen {
  /** Where it really is: no part of it was a link. */
  readonly path: string
  /** What the one that opened it compares: a folder may be replaced at any moment. */
  readonly dev: string
  readonly ino: string
}

/**
 * Where the file is now. It has to be looked up before each use: whoever may write a folder may put a link there at any time.
 * What is named below one of `folders`, outer ones first, lies in that folder, and files of Pegboard are never opened, whoever named them.
 * @param setting the part of the configuration that messages name
 * @param make makes an empty file where there is none
 * @throws ToolError E_PATH_OUTSIDE_ROOT, E_PATH_DENIED, E_NOT_REGULAR_FILE, and what the file system says
 */
export async function fileToOpen(
  path: string,
  {
    folders,
    setting,
    make = false,
  }: { readonly folders: readonly string[]; readonly setting: string; readonly make?: boolean },
): Promise<FileToOpen> {
  const real = await realForm(resolve(path))
  let start: string | undefined
  for (const folder of folders.map((one) => resolve(one))) {
    const really = await realForm(folder)
    if (!isInside(resolve(path), folder) && !isInside(resolve(path), really)) continue
    if (!isInside(real, really))
      throw new ToolError('A link on the way to the file leads out of its folder.', {
        code: 'E_PATH_OUTSIDE_ROOT',
        hint: `The operator names the file where it really is (${setting}).`,
      })
    // Seen from the first: one further in may itself have been replaced by a link.
    start ??= really
  }
  start ??= parse(real).root
  const own = await ownFilesIn([start])
  if (own.isSecret(real, start) || own.isFixed(real, start))
    throw new ToolError('The file belongs to Pegboard itself.', {
      code: 'E_PATH_DENIED',
      hint: `Use another file; ${setting} names it.`,
    })
  const facts = await fs.lstat(real, { bigint: true }).catch(async (error: NodeJS.ErrnoException) => {
    if (!make || error.code !== 'ENOENT') throw error
    return await makeFile(real)
  })
  if (!facts.isFile())
    throw new ToolError('The path is not a regular file.', { code: 'E_NOT_REGULAR_FILE', hint: 'Name another one.' })
  return { path: real, dev: String(facts.dev), ino: String(facts.ino) }
}

async function makeFile(path: string) {
  const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW = 0 } = constants
  const file = await fs.open(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o666)
  try {
    return await file.stat({ bigint: true })
  } finally {
    await file.close()
  }
}
