import type { Caller } from '../core/caller.ts'
import type { Surface } from '../meta/surface.ts'
import type { Exposure } from '../view/exposure.ts'
import type { ListedTool } from '../view/listed-tools.ts'

type List = readonly ListedTool[]

/** Lists of tools for callers, with their JSON cached as bytes. */
export interface ListCache {
  of(caller: Caller): List
}

/** Limit of the cache. 10,000 tools are 5 MB; the least recently used list is dropped first. */
const MAX_BYTES = 64 * 1024 * 1024
/** Minimum number of tools to cache a list: shorter ones are serialized faster than found. */
const MIN_TOOLS = 50

// The key is the list itself, so that `json-pieces.ts` finds the bytes of a list that it writes.
const bytesByList = new WeakMap<List, () => Buffer>()

/** The JSON of a cached list; undefined for other values, and for a list that JSON cannot represent. */
export function listBytes(list: unknown): Buffer | undefined {
  const bytes = typeof list === 'object' && list !== null ? bytesByList.get(list as List) : undefined
  try {
    return bytes?.()
  } catch {
    return undefined
  }
}

/** @param maxBytes limit for all lists together; a larger one is cached alone */
export function createListCache(
  surface: Pick<Surface, 'list'>,
  exposure: (caller: Caller) => Exposure,
  maxBytes: number = MAX_BYTES,
): ListCache {
  // Weak, so that a list is dropped with the view that it belongs to.
  const entries = new WeakMap<List, { readonly ref: WeakRef<List>; readonly bytes: Buffer }>()
  // In the order of last use, the oldest first.
  const sizes = new Map<WeakRef<List>, number>()
  let total = 0

  function forget(ref: WeakRef<List>): void {
    total -= sizes.get(ref) ?? 0
    sizes.delete(ref)
  }
  const gone = new FinalizationRegistry(forget)

  function createEntry(list: List): { readonly ref: WeakRef<List>; readonly bytes: Buffer } {
    const entry = { ref: new WeakRef(list), bytes: Buffer.from(JSON.stringify(list)) }
    entries.set(list, entry)
    gone.register(list, entry.ref)
    return entry
  }

  function bytesOf(list: List): Buffer {
    const { ref, bytes } = entries.get(list) ?? createEntry(list)
    forget(ref)
    sizes.set(ref, bytes.length)
    total += bytes.length
    for (const [oldest] of sizes) {
      if (total <= maxBytes || oldest === ref) break
      forget(oldest)
      const oldestList = oldest.deref()
      if (oldestList) entries.delete(oldestList)
    }
    return bytes
  }

  return {
    of(caller) {
      const list = surface.list(caller, exposure(caller).mode)
      if (list.length >= MIN_TOOLS && !bytesByList.has(list)) bytesByList.set(list, () => bytesOf(list))
      return list
    },
  }
}
