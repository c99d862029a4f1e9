import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { sep } from 'node:path'
import { replaceFile } from '../core/replace-file.ts'

/** JSON documents in files, one per key, written whole or not at all. */
export interface FileStore<Value> {
  /** Undefined when the file is missing or unreadable: everything stored here can be learned again. */
  get(key: string): Value | undefined
  set(key: string, value: Value): void
}

/** Byte arrays in files, one per key, written whole or not at all. A cache: no method throws. */
export interface BytesStore {
  /** Undefined when the file is missing or unreadable. */
  get(key: string): Uint8Array | undefined
  set(key: string, bytes: Uint8Array): void
  /** The first line including its newline, or the whole file if it has none. */
  line(key: string): Uint8Array | undefined
  /** Same as `get`, asynchronous. */
  load(key: string): Promise<Uint8Array | undefined>
  save(key: string, bytes: Uint8Array): Promise<void>
}

const LEGAL_KEY = /^[A-Za-z0-9_-]{1,128}$/
const DIRECTORY = { recursive: true, mode: 0o700 } as const
const FILE = { mode: 0o600 } as const

/** The file of a key. @throws TypeError for a key that is not a plain file name */
export function fileIn(dir: string, key: string, suffix: string): string {
  if (!LEGAL_KEY.test(key)) throw new TypeError(`illegal key "${key.slice(0, 40)}"`)
  // Called fifty times during a start; a valid key needs no path normalization.
  return `${dir}${sep}${key}${suffix}`
}

let writes = 0

function replace(dir: string, file: string, content: string | Uint8Array): void {
  mkdirSync(dir, DIRECTORY)
  const temporary = `${file}.${process.pid}-${++writes}.tmp`
  try {
    writeFileSync(temporary, content, FILE)
    renameSync(temporary, file)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

const LINE_STEP_BYTES = 4 * 1024
const NEWLINE = 0x0a

function readLine(file: string): Uint8Array {
  const parts: Buffer[] = []
  const descriptor = openSync(file, 'r')
  try {
    for (;;) {
      const part = Buffer.allocUnsafe(LINE_STEP_BYTES)
      const read = part.subarray(0, readSync(descriptor, part, 0, LINE_STEP_BYTES, null))
      const end = read.indexOf(NEWLINE)
      parts.push(end === -1 ? read : read.subarray(0, end + 1))
      if (end !== -1 || read.length === 0) return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
    }
  } finally {
    closeSync(descriptor)
  }
}

const unlessAbsent =
  (onError: (error: unknown) => void) =>
  (error: unknown): undefined => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') onError(error)
  }

/** Runs file work, and reports its errors. */
const guard =
  (onError: (error: unknown) => void) =>
  <T>(work: () => T): T | undefined => {
    try {
      return work()
    } catch (error) {
      onError(error)
      return undefined
    }
  }

/** @param onError called when a file cannot be read or written; no method throws */
export function createFileStore<Value>(
  dir: string,
  onError: (error: unknown) => void = () => undefined,
): FileStore<Value> {
  const reading = guard(unlessAbsent(onError))
  const writing = guard(onError)
  return {
    get(key) {
      const file = fileIn(dir, key, '.json')
      // Node needs ten times as long to throw the error for a missing file.
      return reading(() =>
        statSync(file, { throwIfNoEntry: false }) ? (JSON.parse(readFileSync(file, 'utf8')) as Value) : undefined,
      )
    },
    set(key, value) {
      const file = fileIn(dir, key, '.json')
      writing(() => replace(dir, file, JSON.stringify(value)))
    },
  }
}

/** @param onError called when a file cannot be read or written */
export function createBytesStore(dir: string, onError: (error: unknown) => void = () => undefined): BytesStore {
  const reading = guard(unlessAbsent(onError))
  const writing = guard(onError)
  const fileOf = (key: string): string => fileIn(dir, key, '.bin')
  return {
    get(key) {
      const file = fileOf(key)
      return reading(() => readFileSync(file))
    },
    set(key, bytes) {
      const file = fileOf(key)
      writing(() => replace(dir, file, bytes))
    },
    line(key) {
      const file = fileOf(key)
      return reading(() => readLine(file))
    },
    async load(key) {
      const file = fileOf(key)
      return await readFile(file).catch(unlessAbsent(onError))
    },
    async save(key, bytes) {
      const file = fileOf(key)
      await mkdir(dir, DIRECTORY)
        .then(() => replaceFile(file, bytes))
        .catch(onError)
    },
  }
}
