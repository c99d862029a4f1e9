import { constants } from 'node:fs'
import { open, stat } from 'node:fs/promises'

export interface JsonFile {
  /** The parsed content; read again when the file changes. Undefined if the file is missing or not JSON. */
  read(path: string): Promise<unknown>
}

interface CachedValue {
  readonly stamp: string
  readonly value: unknown
}

/** Cached reading of JSON files that other programs write. */
export function createJsonFile(maxBytes = 32 * 1024 * 1024): JsonFile {
  const cache = new Map<string, CachedValue>()
  return {
    async read(path) {
      try {
        const { mtimeMs, size, ino } = await stat(path)
        const stamp = `${ino}.${size}.${mtimeMs}`
        const before = cache.get(path)
        if (before?.stamp === stamp) return before.value
        const value: unknown = JSON.parse(await textOf(path, maxBytes))
        cache.set(path, { stamp, value })
        return value
      } catch {
        cache.delete(path)
        return undefined
      }
    },
  }
}

const { O_RDONLY, O_NONBLOCK = 0 } = constants

/** Does not block on pipes or devices. @throws if it is not a regular file within the size limit */
async function textOf(path: string, maxBytes: number): Promise<string> {
  const handle = await open(path, O_RDONLY | O_NONBLOCK)
  try {
    const fileStat = await handle.stat()
    if (!fileStat.isFile() || fileStat.size > maxBytes) throw new Error('no such file')
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}
