import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** JSON documents kept as files, one a key, written whole or not at all. */
export interface FileStore<Value> {
  /** Undefined when absent or unreadable: what is kept here can be learnt again. */
  get(key: string): Value | undefined
  set(key: string, value: Value): void
}

const LEGAL_KEY = /^[A-Za-z0-9_-]{1,128}$/

/** @param onError told when a file cannot be read or written; nothing is thrown, because this is only a memory */
export function createFileStore<Value>(
  dir: string,
  onError: (error: unknown) => void = () => undefined,
): FileStore<Value> {
  const fileOf = (key: string): string => {
    if (!LEGAL_KEY.test(key)) throw new TypeError(`illegal key "${key.slice(0, 40)}"`)
    return join(dir, `${key}.json`)
  }
  return {
    get(key) {
      const file = fileOf(key)
      try {
        return JSON.parse(readFileSync(file, 'utf8')) as Value
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') onError(error)
        return undefined
      }
    },
    set(key, value) {
      const file = fileOf(key)
      try {
        mkdirSync(dir, { recursive: true, mode: 0o700 })
        const temporary = `${file}.${process.pid}.tmp`
        writeFileSync(temporary, JSON.stringify(value), { mode: 0o600 })
        renameSync(temporary, file)
      } catch (error) {
        onError(error)
      }
    },
  }
}
