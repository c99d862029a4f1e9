import { randomBytes } from 'node:crypto'
import { closeSync, constants, fchmodSync, fstatSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { createFile } from '../core/create-file.ts'
import { writtenByOthers } from '../core/written-by-others.ts'

export const KEY_BYTES = 32

/**
 * Reads or creates a key of 32 random bytes in a file that only its owner can read. Every process with the same state
 * folder gets the same key, also after a restart.
 * @param onError called once when the file can be neither read nor created; until `store` succeeds, only this process
 * has the key
 */
export function openSecretFile(file: string, onError: (error: unknown) => void) {
  const fresh = randomBytes(KEY_BYTES)
  let isStored = false
  let hasFailed = false
  function readOrStore(): Buffer {
    try {
      const stored = readOrCreate(file, fresh)
      isStored = true
      return stored
    } catch (error) {
      if (!hasFailed) onError(error)
      hasFailed = true
      return fresh
    }
  }
  const value = readOrStore()
  return {
    value,
    /** Stores the value if that has failed so far. */
    store(): void {
      if (!isStored && !readOrStore().equals(value)) onError(new Error(`another process has created ${file}`))
    },
  }
}

/** As `openSecretFile`, for a key that is not stored later if it cannot be stored now. */
export const readSecret = (file: string, onError: (error: unknown) => void): Buffer =>
  openSecretFile(file, onError).value

function readOrCreate(file: string, fresh: Buffer): Buffer {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  try {
    return readPrivate(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  try {
    createFile(file, fresh)
    return fresh
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  // Another process was faster.
  return readPrivate(file)
}

/** Refuses links and files that another user may have written, and removes the read permission of others. */
function readPrivate(file: string): Buffer {
  const descriptor = openSync(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0))
  try {
    const others = writtenByOthers(file)
    if (others !== undefined) throw new Error(`${file} is not safe to use: ${others}`)
    if (process.platform !== 'win32' && (fstatSync(descriptor).mode & 0o077) !== 0) fchmodSync(descriptor, 0o600)
    const stored = readFileSync(descriptor)
    if (stored.length === KEY_BYTES) return stored
    throw new Error(
      `${file} has ${stored.length} bytes instead of ${KEY_BYTES}. Delete it: Pegboard then creates a new one.`,
    )
  } finally {
    closeSync(descriptor)
  }
}
