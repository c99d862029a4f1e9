import { hash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { setNewest } from '../core/drop-oldest.ts'
import { PegboardError } from '../core/errors.ts'
import { replaceFile } from '../core/replace-file.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { exclusively } from './file-lock.ts'
import { fileIn } from './file-store.ts'
import { createKeyedQueue } from './keyed-queue.ts'

/** The result of changing a document: its new value (`undefined` leaves it as it is) and what `update` returns. */
export interface Change<Value, Result> {
  readonly value?: Value | undefined
  readonly result: Result
}

/**
 * Durable JSON documents. A document is read again when another process changed its file, changed by one process at a
 * time, and written whole or not at all. A file that cannot be parsed is renamed, never overwritten.
 */
export interface Documents<Value> {
  /**
   * The document, or undefined if there is none. Callers must not modify it.
   * @throws PegboardError E_BACKEND_UNAVAILABLE
   */
  read(key: string): Promise<Value | undefined>
  /** @throws PegboardError E_BACKEND_UNAVAILABLE; or whatever `change` throws, in which case nothing is written */
  update<Result>(key: string, change: (value: Value | undefined) => Change<Value, Result>): Promise<Result>
  keys(): Promise<string[]>
}

export interface DocumentsOptions {
  readonly dir: string
  /** Checks the shape of a file's value. */
  readonly isValue: (value: unknown) => boolean
  /** Maximum number of documents; the least recently used one is removed. Default: no limit. */
  readonly maxKeys?: number
  /** Called with the path of a file that could not be parsed and the path it was renamed to. */
  readonly onBroken: (file: string, aside: string) => void
}

interface CachedDocument {
  readonly stamp: string
  readonly value: unknown
}

const MAX_KNOWN = 64

/** A valid file name for any parts: the same parts give the same name. */
export const keyOf = (...parts: readonly string[]): string => hash('sha256', JSON.stringify(parts)).slice(0, 32)

export function createDocuments<Value>({ dir, isValue, onBroken, maxKeys }: DocumentsOptions): Documents<Value> {
  const cache = new Map<string, CachedDocument>()
  const inTurn = createKeyedQueue()

  const fileOf = (key: string): string => fileIn(dir, key, '.json')

  async function load(key: string): Promise<Value | undefined> {
    const file = fileOf(key)
    try {
      const stamp = await stampOf(file)
      const before = cache.get(key)
      if (before?.stamp === stamp) return before.value as Value
      const text = await readFile(file, 'utf8')
      const value = tryParseJson(text)
      if (value === undefined || !isValue(value)) return await renameDamaged(key, file)
      setNewest(cache, key, { stamp, value }, MAX_KNOWN)
      return value as Value
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw createStateError(error)
    }
  }

  async function renameDamaged(key: string, file: string): Promise<undefined> {
    const aside = `${file}.${new Date().toISOString().replaceAll(/[:.]/g, '-')}.broken`
    await rename(file, aside)
    cache.delete(key)
    onBroken(file, aside)
  }

  async function save(key: string, value: Value): Promise<void> {
    const file = fileOf(key)
    try {
      await replaceFile(file, JSON.stringify(value))
      setNewest(cache, key, { stamp: await stampOf(file), value }, MAX_KNOWN)
    } catch (error) {
      throw createStateError(error)
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
      cache.delete(key)
      await rm(fileOf(key), { force: true })
    }
  }

  async function changed<Result>(
    key: string,
    change: (value: Value | undefined) => Change<Value, Result>,
  ): Promise<Result> {
    await mkdir(dir, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
      throw createStateError(error)
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
        throw createStateError(new Error('another process has held the file for too long'))
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

/** Changes with every write, because files are replaced and never written in place. */
async function stampOf(file: string): Promise<string> {
  const found = await stat(file, { bigint: true })
  // Opening a pipe would block until it has a writer.
  if (!found.isFile()) throw new Error(`${file} is no file`)
  const { ino, size, mtimeNs } = found
  return `${ino}.${size}.${mtimeNs}`
}

/** The error names no path: only operators may see paths. */
const createStateError = (cause: unknown): PegboardError =>
  new PegboardError('E_BACKEND_UNAVAILABLE', 'The state folder cannot be used now.', {
    hint: 'The operator checks that dirs.state is writable and that the disk is not full.',
    cause,
  })
