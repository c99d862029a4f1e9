import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, join, sep } from 'node:path'
import type { Processes } from 'pegboard'

/** Folders of PATH that are not writable through the workspace. */
function programFolders(processes: Processes, roots: readonly string[]): string[] {
  const env = processes.environment()
  const path = env['PATH'] ?? Object.entries(env).find(([name]) => name.toUpperCase() === 'PATH')?.[1] ?? ''
  const isInside = (folder: string): boolean => roots.some((root) => folder === root || folder.startsWith(root + sep))
  return path.split(delimiter).filter((folder) => isAbsolute(folder) && !isInside(folder))
}

/** Absolute path of a program; undefined if it is not found. A name with a slash is a path already. */
export async function findProgram(
  name: string,
  processes: Processes,
  roots: readonly string[],
): Promise<string | undefined> {
  const isWindows = processes.platform === 'win32'
  const extensions = isWindows && !/\.\w+$/.test(name) ? ['.exe', '.cmd', '.bat', '.com'] : ['']
  const folders = isAbsolute(name) ? [''] : /[\\/]/.test(name) ? [] : programFolders(processes, roots)
  for (const folder of folders)
    for (const ending of extensions) {
      const file = folder === '' ? name + ending : join(folder, name + ending)
      if (await isProgram(file)) return file
    }
  return undefined
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK)
    return (await stat(file)).isFile()
  } catch (error) {
    if (
      ['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM', 'ELOOP', 'ENAMETOOLONG'].includes(
        (error as NodeJS.ErrnoException).code ?? '',
      )
    )
      return false
    throw error
  }
}
