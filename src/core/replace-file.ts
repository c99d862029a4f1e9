import { randomUUID } from 'node:crypto'
import { rename, rm, writeFile } from 'node:fs/promises'

/**
 * Writes a file under another name and renames it, so that it is written whole or not at all.
 * @param mode of the file; default: only this user can read it
 */
export async function replaceFile(file: string, content: string | Uint8Array, mode = 0o600): Promise<void> {
  const temporary = `${file}.${process.pid}-${randomUUID().slice(0, 8)}.tmp`
  try {
    await writeFile(temporary, content, { mode, flag: 'wx' })
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined)
    throw error
  }
}
