import { randomUUID } from 'node:crypto'
import { linkSync, renameSync, rmSync, writeFileSync } from 'node:fs'

/**
 * Creates a file that only this user can read. The file is complete or does not exist, even on a full disk or after a crash.
 * @throws an error with the code EEXIST if the file exists
 */
export function createFile(file: string, content: string | Uint8Array): void {
  const temporary = `${file}.${process.pid}-${randomUUID().slice(0, 8)}.tmp`
  try {
    writeFileSync(temporary, content, { mode: 0o600, flag: 'wx', flush: true })
    try {
      linkSync(temporary, file)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw error
      // Some file systems have no hard links. There, two processes could create the file at the same moment.
      renameSync(temporary, file)
    }
  } finally {
    rmSync(temporary, { force: true })
  }
}
