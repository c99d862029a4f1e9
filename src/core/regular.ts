import { statSync } from 'node:fs'

/**
 * Refuses what may never end, such as a pipe or a device: whoever opens that waits in a thread that nothing can end, and
 * the process with it. A folder is let through: reading it says what it is.
 * @throws Error with the code ENOTREG, or what keeps it from being looked at
 */
export function mustEnd(path: string): void {
  const found = statSync(path)
  if (!found.isFile() && !found.isDirectory())
    throw Object.assign(new Error('it is no regular file'), { code: 'ENOTREG' })
}
