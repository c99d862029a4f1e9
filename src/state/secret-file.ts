import { randomBytes } from 'node:crypto'
import { closeSync, constants, fchmodSync, fstatSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { writtenByOthers } from '../core/written-by-others.ts'

const BYTES = 32

/**
 * Reads or creates a key of 32 random bytes in a file that only its owner can read. Every process with the same state
 * folder gets the same key, also after a restart.
 * @param onError called when the file can be neither read nor created; the key then lasts until this process ends
 */
export function readSecret(file: string, onError: (error: unknown) => void): Buffer {
  const fresh = randomBytes(BYTES)
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    // The first process creates the file; all others read it.
    writeFileSync(file, fresh, { mode: 0o600, flag: 'wx' })
    return fresh
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
      onError(error)
      return fresh
    }
  }
  try {
    const stored = readPrivate(file)
    if (stored.length === BYTES) return stored
    onError(new Error(`${file} does not hold ${BYTES} bytes`))
  } catch (error) {
    onError(error)
  }
  return fresh
}

/** Refuses links and files that another user may have written, and removes the read permission of others. */
function readPrivate(file: string): Buffer {
  const descriptor = openSync(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0))
  try {
    const others = writtenByOthers(file)
    if (others !== undefined) throw new Error(`${file} is not safe to use: ${others}`)
    if (process.platform !== 'win32' && (fstatSync(descriptor).mode & 0o077) !== 0) fchmodSync(descriptor, 0o600)
    return readFileSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
