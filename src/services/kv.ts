import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Kv } from '../core/service-types.ts'
import { type Change, type Documents, keyOf } from '../state/document-store.ts'

/** Key, value, and expiry in milliseconds since the epoch. Pairs, because a key may be `__proto__`. */
export type KvDocument = readonly (readonly [key: string, value: unknown, expiresAt?: number])[]

export const isKvDocument = (value: unknown): boolean =>
  Array.isArray(value) && value.every((entry) => Array.isArray(entry) && typeof entry[0] === 'string')

type Entries = Map<string, { readonly value: unknown; readonly expiresAt: number | undefined }>

const MAX_KEY_CHARS = 512

export interface KvOptions {
  readonly documents: Documents<KvDocument>
  readonly clock: Clock
  readonly maxBytes: number
  readonly backend?: Kv['backend']
}

/** The key-value stores of all modules and profiles. Each is one document. */
export function createKv({
  documents,
  clock,
  maxBytes,
  backend = 'file',
}: KvOptions): (profile: string, module: string) => Kv {
  const stores = new Map<string, Kv>()
  // No module can have this name.
  const SHARED = ':shared'

  function storeOf(profile: string, module: string): Kv {
    const id = keyOf(profile, module)
    return getOrInsert(stores, id, () => make(id, profile))
  }

  function make(id: string, profile: string): Kv {
    const living = (document: KvDocument | undefined): Entries => {
      const now = clock.now()
      const entries: Entries = new Map()
      for (const [key, value, expiresAt] of document ?? [])
        if (expiresAt === undefined || expiresAt > now) entries.set(key, { value, expiresAt })
      return entries
    }
    const entries = async (): Promise<Entries> => living(await documents.read(id))

    /** `work` changes the entries. With `same` nothing is written. */
    const change = <Result>(work: (entries: Entries) => { readonly result: Result; readonly same?: boolean }) =>
      documents.update(id, (document): Change<KvDocument, Result> => {
        const now = living(document)
        const { result, same } = work(now)
        return same ? { result } : { value: toDocument(now, maxBytes), result }
      })

    /** JSON has no Infinity, so it means no expiry. */
    const endOf = (seconds: number | undefined): number | undefined => {
      const at = seconds === undefined ? Number.POSITIVE_INFINITY : clock.now() + seconds * 1_000
      return Number.isFinite(at) ? at : undefined
    }
    const list = (now: Entries, key: string): readonly unknown[] => {
      const value = now.get(key)?.value ?? []
      if (!Array.isArray(value)) throw createValueError(key, 'no list')
      return value
    }
    const put = (now: Entries, key: string, value: unknown): void =>
      void now.set(key, { value, expiresAt: now.get(key)?.expiresAt })

    const push = (key: string, join: (old: readonly unknown[]) => readonly unknown[]): Promise<number> =>
      change((now) => {
        const longer = join(list(now, requireKey(key)))
        put(now, key, longer)
        return { result: longer.length }
      })
    const pop = (key: string, at: 0 | -1): Promise<unknown> =>
      change((now) => {
        const old = list(now, key)
        if (old.length === 0) return { result: null, same: true }
        const rest = at === 0 ? old.slice(1) : old.slice(0, -1)
        if (rest.length === 0) now.delete(key)
        else put(now, key, rest)
        return { result: old.at(at) }
      })

    return {
      backend,
      get: async (key) => structuredClone((await entries()).get(key)?.value ?? null),
      async set(key, value, options = {}) {
        const stored = jsonOf(requireKey(key), value)
        const { ttl } = options
        if (ttl !== undefined && !(ttl > 0))
          throw createValueError(key, 'stored with a ttl that is not positive; ttl is in seconds')
        const expiresAt = endOf(ttl)
        await change((now) => {
          now.set(key, { value: stored, expiresAt })
          return { result: undefined }
        })
      },
      del: (...keys) =>
        change((now) => {
          const result = keys.filter((key) => now.delete(key)).length
          return { result, same: result === 0 }
        }),
      incr: (key, by = 1) =>
        change((now) => {
          const old = now.get(requireKey(key))?.value ?? 0
          if (typeof old !== 'number' || typeof by !== 'number' || !Number.isFinite(old + by))
            throw createValueError(key, 'no number')
          put(now, key, old + by)
          return { result: old + by }
        }),
      update: (key, work) =>
        change((now) => {
          const { value, result } = work(structuredClone(now.get(requireKey(key))?.value ?? null))
          if (value === undefined) return { result, same: true }
          if (value === null) return { result, same: !now.delete(key) }
          put(now, key, jsonOf(key, value))
          return { result }
        }),
      expire: (key, seconds) =>
        change((now) => {
          const entry = now.get(key)
          if (!entry) return { result: false, same: true }
          if (seconds > 0) now.set(key, { value: entry.value, expiresAt: endOf(seconds) })
          else now.delete(key)
          return { result: true }
        }),
      keys: async (prefix = '') => [...(await entries()).keys()].filter((key) => key.startsWith(prefix)),
      lpush: (key, ...values) => push(key, (old) => [...values.map((one) => jsonOf(key, one)).reverse(), ...old]),
      rpush: (key, ...values) => push(key, (old) => [...old, ...values.map((one) => jsonOf(key, one))]),
      lpop: (key) => pop(key, 0),
      rpop: (key) => pop(key, -1),
      async lrange(key, start, stop) {
        const values = list(await entries(), key)
        const end = stop < 0 ? values.length + stop : stop
        return structuredClone(values.slice(start, end + 1))
      },
      llen: async (key) => list(await entries(), key).length,
      get shared() {
        return storeOf(profile, SHARED)
      },
    }
  }
  return storeOf
}

function toDocument(entries: Entries, maxBytes: number): KvDocument {
  const document: KvDocument = [...entries].map(([key, { value, expiresAt }]) =>
    expiresAt === undefined ? [key, value] : [key, value, expiresAt],
  )
  const bytes = Buffer.byteLength(JSON.stringify(document))
  if (bytes > maxBytes)
    throw new PegboardError('E_TOO_LARGE', `The store would hold ${bytes} bytes; the limit is ${maxBytes}.`, {
      hint: 'Delete keys that you no longer need, or raise services.maxBytes.',
    })
  return document
}

/** A copy, so that later changes of the caller are not stored. */
function jsonOf(key: string, value: unknown): unknown {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch {}
  if (text === undefined) throw createValueError(key, 'not a JSON value')
  return JSON.parse(text)
}

function requireKey(key: string): string {
  if (typeof key !== 'string' || key === '' || key.length > MAX_KEY_CHARS)
    throw new PegboardError('E_VALIDATION', `A key must be a string of 1 to ${MAX_KEY_CHARS} characters.`)
  return key
}

const createValueError = (key: string, what: string): PegboardError =>
  new PegboardError('E_VALIDATION', `The value of '${String(key).slice(0, 80)}' is ${what}.`)
