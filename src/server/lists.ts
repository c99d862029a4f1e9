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
  // In the order of last use.
  const kept = new Map<List, Buffer>()
  let total = 0

  function bytesOf(list: List): Buffer {
    const bytes = kept.get(list) ?? Buffer.from(JSON.stringify(list))
    if (!kept.delete(list)) total += bytes.length
    kept.set(list, bytes)
    for (const [oldest, { length }] of kept) {
      if (total <= maxBytes || oldest === list) break
      kept.delete(oldest)
      total -= length
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
