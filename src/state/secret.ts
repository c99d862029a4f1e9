import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

const BYTES = 32

/**
 * A key of 32 random bytes, kept in a file only its owner can read: the same after a restart, and for every process
 * with the same state folder.
 * @param onError told when the file can be neither read nor made; the key then lasts as long as this process
 */
export function readSecret(file: string, onError: (error: unknown) => void): Buffer {
  const fresh = randomBytes(BYTES)
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    // Made by whoever is first; everybody else reads that one.
    writeFileSync(file, fresh, { mode: 0o600, flag: 'wx' })
    return fresh
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
      onError(error)
      return fresh
    }
  }
  try {
    const kept = readFileSync(file)
    if (kept.length === BYTES) return kept
    onError(new Error(`${file} does not hold ${BYTES} bytes`))
  } catch (error) {
    onError(error)
  }
  return fresh
}
