import { readFile, stat } from 'node:fs/promises'

export interface JsonFile {
  /** What the file holds; read again when it has changed. Undefined when it is missing or holds no JSON. */
  read(path: string): Promise<unknown>
}

interface Known {
  readonly stamp: string
  readonly value: unknown
}

/** Files that somebody else writes, and that are looked at often. */
export function createJsonFile(maxBytes = 32 * 1024 * 1024): JsonFile {
  const known = new Map<string, Known>()
  return {
    async read(path) {
      try {
        const { mtimeMs, size, ino } = await stat(path)
        const stamp = `${ino}.${size}.${mtimeMs}`
        const before = known.get(path)
        if (before?.stamp === stamp) return before.value
        if (size > maxBytes) return undefined
        const value: unknown = JSON.parse(await readFile(path, 'utf8'))
        known.set(path, { stamp, value })
        return value
      } catch {
        known.delete(path)
        return undefined
      }
    },
  }
}
