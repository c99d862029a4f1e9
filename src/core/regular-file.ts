import { statSync } from 'node:fs'

/** What is wrong with a file, by the code of the error. */
export const FILE_FAULTS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  EISDIR: 'is a folder',
  ENOTREG: 'is not a regular file',
}

/**
 * Rejects pipes and devices, because opening one can block a thread, and with it the process, forever. Folders pass:
 * reading one fails with a clear error.
 * @throws Error with the code ENOTREG, or the error of `stat`
 */
export function assertRegularFile(path: string): void {
  const stats = statSync(path)
  if (!stats.isFile() && !stats.isDirectory())
    throw Object.assign(new Error('it is not a regular file'), { code: 'ENOTREG' })
}
