import type { Caller } from '../core/context.ts'
import type { Surface } from '../meta/surface.ts'
import type { Exposure } from '../view/exposure.ts'
import type { ListedTool } from '../view/listing.ts'

type List = readonly ListedTool[]

/** Lists of tools for callers, kept as the bytes they are sent as. */
export interface Lists {
  of(caller: Caller): List
}

/** Ten thousand tools are 5 MB; the list that nobody asked for the longest goes first. */
const MAX_BYTES = 64 * 1024 * 1024
/** Shorter ones are written sooner than looked up, and some are made for every request. */
const KEPT_FROM = 50

// By the list itself, so that whoever writes a message needs nothing else.
const known = new WeakMap<List, () => Buffer>()

/** The JSON of a list that is kept as bytes; none of one that is too deep to be written. */
export function listBytes(list: unknown): Buffer | undefined {
  const bytes = typeof list === 'object' && list !== null ? known.get(list as List) : undefined
  try {
    return bytes?.()
  } catch {
    return undefined
  }
}

/** @param maxBytes of all lists together; one that is larger is kept alone */
export function createLists(
  surface: Pick<Surface, 'list'>,
  exposure: (caller: Caller) => Exposure,
  maxBytes: number = MAX_BYTES,
): Lists {
  // A list that nobody can ask for any more, such as one from before a change, goes with whoever had it.
  const kept = new WeakMap<List, { readonly ref: WeakRef<List>; readonly bytes: Buffer }>()
  // In the order of last use.
  const sizes = new Map<WeakRef<List>, number>()
  let total = 0

  function forget(ref: WeakRef<List>): void {
    total -= sizes.get(ref) ?? 0
    sizes.delete(ref)
  }
  const gone = new FinalizationRegistry(forget)

  function make(list: List): { readonly ref: WeakRef<List>; readonly bytes: Buffer } {
    const made = { ref: new WeakRef(list), bytes: Buffer.from(JSON.stringify(list)) }
    kept.set(list, made)
    gone.register(list, made.ref)
    return made
  }

  function bytesOf(list: List): Buffer {
    const { ref, bytes } = kept.get(list) ?? make(list)
    forget(ref)
    sizes.set(ref, bytes.length)
    total += bytes.length
    for (const [oldest] of sizes) {
      if (total <= maxBytes || oldest === ref) break
      forget(oldest)
      const left = oldest.deref()
      if (left) kept.delete(left)
    }
    return bytes
  }

  return {
    of(caller) {
      const list = surface.list(caller, exposure(caller).mode)
      if (list.length >= KEPT_FROM && !known.has(list)) known.set(list, () => bytesOf(list))
      return list
    },
  }
}
