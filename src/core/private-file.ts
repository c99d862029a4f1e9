import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { writtenByOthers } from './written-by-others.ts'

/**
 * Reads a file that only this user can have written: not a link, and made private before reading.
 * @throws Error with the reason; errors of the file system have their code
 */
export async function readPrivateFile(file: string): Promise<string> {
  const handle = await open(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)).catch(
    (error: NodeJS.ErrnoException) => {
      throw error.code === 'ELOOP' ? new Error(`${file} is a symbolic link`) : error
    },
  )
  try {
    const others = writtenByOthers(file)
    if (others !== undefined) throw new Error(others)
    const { mode } = await handle.stat()
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) await handle.chmod(0o600)
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}
