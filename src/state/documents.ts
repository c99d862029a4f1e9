import { hash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PegboardError } from '../core/errors.ts'
import { exclusively } from './exclusive.ts'
import { parsed } from './readable.ts'
import { createTurns } from './turns.ts'

/** What a change makes of a document: its new value (`undefined`: it stays as it is) and what is answered. */
export interface Change<Value, Result> {
  readonly value?: Value | undefined
  readonly result: Result
}

/**
 * JSON documents that are not to be lost: read anew when another process has written them, changed by one process at a
 * time, written whole or not at all. One that cannot be parsed is put aside, never overwritten.
 */
export interface Documents<Value> {
  /** Not to be changed. Undefined when there is none. @throws PegboardError E_BACKEND_UNAVAILABLE */
  read(key: string): Promise<Value | undefined>
  /** @throws PegboardError E_BACKEND_UNAVAILABLE; whatever `change` throws, and then nothing is written */
  update<Result>(key: string, change: (value: Value | undefined) => Change<Value, Result>): Promise<Result>
  keys(): Promise<string[]>
}

export interface DocumentsOptions {
  readonly dir: string
  /** Checks what a file holds. */
  readonly isValue: (value: unknown) => boolean
  /** How many there may be; the one that was left alone longest makes room. Default any number. */
  readonly maxKeys?: number
  /** Told of a file that could not be parsed, and where it is now. */
  readonly onBroken: (file: string, aside: string) => void
}

interface Known {
  readonly stamp: string
  readonly value: unknown
}

const LEGAL_KEY = /^[A-Za-z0-9_-]{1,128}$/
const MAX_KNOWN = 64

/** A legal key for any text: the same for the same parts. */
export const keyOf = (...parts: readonly string[]): string => hash('sha256', JSON.stringify(parts)).slice(0, 32)

export function createDocuments<Value>({ dir, isValue, onBroken, maxKeys }: DocumentsOptions): Documents<Value> {
  const known = new Map<string, Known>()
  const inTurn = createTurns()
  let writes = 0

  const fileOf = (key: string): string => {
    if (!LEGAL_KEY.test(key)) throw new TypeError(`illegal key "${key.slice(0, 40)}"`)
    return join(dir, `${key}.json`)
  }

  async function load(key: string): Promise<Value | undefined> {
    const file = fileOf(key)
    try {
      const stamp = await stampOf(file)
      const before = known.get(key)
      if (before?.stamp === stamp) return before.value as Value
      const text = await readFile(file, 'utf8')
      const value = parsed(text)
      if (value === undefined || !isValue(value)) return await putAside(key, file)
      remember(key, { stamp, value })
      return value as Value
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw unusable(error)
    }
  }

  async function putAside(key: string, file: string): Promise<undefined> {
    const aside = `${file}.${new Date().toISOString().replaceAll(/[:.]/g, '-')}.broken`
    await rename(file, aside)
    known.delete(key)
    onBroken(file, aside)
  }

  function remember(key: string, entry: Known): void {
    known.delete(key)
    known.set(key, entry)
    if (known.size > MAX_KNOWN) known.delete(known.keys().next().value as string)
  }

  async function save(key: string, value: Value): Promise<void> {
    const file = fileOf(key)
    const temporary = `${file}.${process.pid}-${++writes}.tmp`
    try {
      await writeFile(temporary, JSON.stringify(value), { mode: 0o600 })
      await rename(temporary, file)
      remember(key, { stamp: await stampOf(file), value })
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined)
      throw unusable(error)
    }
  }

  async function makeRoom(max: number): Promise<void> {
    const keys = await keysIn(dir)
    if (keys.length < max) return
    const ages = await Promise.all(
      keys.map(async (key) => ({ key, at: (await stat(fileOf(key)).catch(() => undefined))?.mtimeMs ?? 0 })),
    )
    const surplus = ages.sort((a, b) => a.at - b.at).slice(0, keys.length - max + 1)
    for (const { key } of surplus) {
      known.delete(key)
      await rm(fileOf(key), { force: true })
    }
  }

  async function changed<Result>(
    key: string,
    change: (value: Value | undefined) => Change<Value, Result>,
  ): Promise<Result> {
    await mkdir(dir, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
      throw unusable(error)
    })
    return await exclusively(
      `${fileOf(key)}.lock`,
      async () => {
        const before = await load(key)
        const { value, result } = change(before)
        if (value === undefined) return result
        if (before === undefined && maxKeys !== undefined) await makeRoom(maxKeys)
        await save(key, value)
        return result
      },
      () => {
        throw unusable(new Error('another process has held the file for too long'))
      },
    )
  }

  return {
    read: load,
    update: (key, change) => inTurn(key, () => changed(key, change)),
    keys: () => keysIn(dir),
  }
}

async function keysIn(dir: string): Promise<string[]> {
  const files = await readdir(dir).catch(() => [])
  return files.filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -'.json'.length))
}

/** Another write has another of these: a file is never written in place. */
async function stampOf(file: string): Promise<string> {
  const found = await stat(file, { bigint: true })
  // Whoever opens a pipe waits until somebody else does.
  if (!found.isFile()) throw new Error(`${file} is no file`)
  const { ino, size, mtimeNs } = found
  return `${ino}.${size}.${mtimeNs}`
}

/** Paths are for the operator. */
const unusable = (cause: unknown): PegboardError =>
  new PegboardError('E_BACKEND_UNAVAILABLE', 'What is kept in the state folder cannot be used now.', {
    hint: 'The operator checks dirs.state: that it can be written, and that the disk is not full.',
    cause,
  })
