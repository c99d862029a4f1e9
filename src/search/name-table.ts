import { once } from '../core/once.ts'
import { int32Of, type NumberArray, withRoom } from './packed-sections.ts'
import type { SearchDocument } from './search-document.ts'

/** Finds tools that a query names, in any usual spelling of the name. Tools are known by slot. */
export interface NameTable {
  /** Adds the names of a tool that is not in the table. */
  add(slot: number, document: Pick<SearchDocument, 'names' | 'bareName'>): void
  remove(slot: number): void
  /**
   * Slots named by the whole query, by a word in it that is written like a name (`use filesystem.read on …`), or by a
   * list of names (`echo, read_graph`). A bare tool name counts only if exactly one visible tool has it.
   */
  match(query: string, visible: (slot: number) => boolean): number[]
  sections(): NumberArray[]
}

/** Number of arrays that `sections()` returns. */
export const NAME_SECTIONS = 3

const LONGEST_NAME = 256
const NAMES_CAP = 64
/** A word written like a name: letters joined by dots, underscores, slashes, colons or dashes. */
const nameLike = once(() => /(?<![\p{L}\p{N}])[\p{L}\p{N}]+(?:[._:/-]+[\p{L}\p{N}]+)+/gu)
const NAME_LIKE_CAP = 64
const NOT_ASCII = /[^\x00-\x7f]/
const DOT = 46

/** Fields of an entry. A name is stored as hashes: 64 bits of the key and 32 bits of its exact spelling. */
const KEY = 0
const KEY_MORE = 1
const LITERAL = 2
/** Slot × 2, plus 1 for a bare name; -1 if the tool was removed. */
const OWNER = 3
/** Next entry of the same bucket plus 1. */
const NEXT = 4
const WIDTH = 5

const SEEDS = { key: 0x811c9dc5, more: 0x3c6ef372, literal: 0x1b873593 } as const

/** @param saved result of `sections()`; used directly, not copied */
export function createNameTable(saved?: readonly Uint8Array[]): NameTable {
  let entries = saved ? int32Of(saved[0]) : new Int32Array(64 * WIDTH)
  /** First entry of each bucket plus 1. The number of buckets is a power of two. */
  let buckets = saved ? int32Of(saved[1]) : new Int32Array(64)
  /** First entry of each slot plus 1; its entries are consecutive. */
  let firstEntries = saved ? int32Of(saved[2]) : new Int32Array(64)
  let count = saved ? entries.length / WIDTH : 0
  let removedCount = 0
  if (!Number.isInteger(count) || buckets.length === 0 || (buckets.length & (buckets.length - 1)) !== 0)
    throw new Error('the index is damaged')

  function link(entry: number): void {
    const bucket = (entries[entry * WIDTH + KEY] as number) & (buckets.length - 1)
    entries[entry * WIDTH + NEXT] = buckets[bucket] as number
    buckets[bucket] = entry + 1
  }

  function addEntry(slot: number, name: string, bare: boolean): void {
    const hashes = hashesOf(name)
    if (!hashes) return
    entries = withRoom(entries, (count + 1) * WIDTH)
    const offset = count * WIDTH
    entries[offset + KEY] = hashes.key
    entries[offset + KEY_MORE] = hashes.more
    entries[offset + LITERAL] = hashOf(name.toLowerCase(), SEEDS.literal)
    entries[offset + OWNER] = slot * 2 + Number(bare)
    link(count)
    firstEntries[slot] ||= count + 1
    count++
    if (count > buckets.length) rebuild(buckets.length * 2)
  }

  /** Removes the entries of removed tools and rebuilds the buckets. */
  function rebuild(size: number): void {
    let liveCount = 0
    firstEntries.fill(0)
    for (let entry = 0; entry < count; entry++) {
      const owner = entries[entry * WIDTH + OWNER] as number
      if (owner < 0) continue
      entries.copyWithin(liveCount * WIDTH, entry * WIDTH, (entry + 1) * WIDTH)
      firstEntries[owner >> 1] ||= liveCount + 1
      liveCount++
    }
    count = liveCount
    removedCount = 0
    buckets = new Int32Array(size)
    for (let entry = 0; entry < count; entry++) link(entry)
  }

  /** The tools with a name of the same key, and whether they spell it exactly so. A tool can occur twice. */
  function* withKeyOf(name: string, bare: boolean): Generator<{ readonly slot: number; readonly isExact: boolean }> {
    const hashes = hashesOf(name)
    if (!hashes) return
    const spelling = hashOf(name.toLowerCase(), SEEDS.literal)
    let entry = buckets[hashes.key & (buckets.length - 1)] as number
    while (entry > 0) {
      const offset = (entry - 1) * WIDTH
      entry = entries[offset + NEXT] as number
      const owner = entries[offset + OWNER] as number
      if (owner < 0 || (owner & 1) !== Number(bare)) continue
      if (entries[offset + KEY] !== hashes.key || entries[offset + KEY_MORE] !== hashes.more) continue
      yield { slot: owner >> 1, isExact: entries[offset + LITERAL] === spelling }
    }
  }

  /** The only visible tool with this name. Of several, the only one that spells it exactly so. */
  function lookUp(name: string, bare: boolean, visible: (slot: number) => boolean): number | undefined {
    const slots = new Set<number>()
    const exactSlots = new Set<number>()
    for (const { slot, isExact } of withKeyOf(name, bare)) {
      const isIrrelevant = !isExact && slots.size > 1
      if (isIrrelevant || !visible(slot)) continue
      slots.add(slot)
      if (isExact) exactSlots.add(slot)
      if (exactSlots.size > 1) return undefined
    }
    const [only] = slots.size > 1 ? exactSlots : slots
    return only
  }

  return {
    add(slot, { names, bareName }) {
      firstEntries = withRoom(firstEntries, slot + 1)
      for (const name of names.slice(0, NAMES_CAP)) addEntry(slot, name, false)
      addEntry(slot, bareName, true)
    },
    remove(slot) {
      const firstEntry = (firstEntries[slot] ?? 0) - 1
      if (firstEntry < 0) return
      firstEntries[slot] = 0
      for (let entry = firstEntry; entry < count && (entries[entry * WIDTH + OWNER] as number) >> 1 === slot; entry++) {
        entries[entry * WIDTH + OWNER] = -1
        removedCount++
      }
      if (removedCount > 1000 && removedCount * 2 > count) rebuild(buckets.length)
    },
    match(query, visible) {
      const findSlot = (name: string): number | undefined => lookUp(name, false, visible) ?? lookUp(name, true, visible)
      const whole = query.length <= LONGEST_NAME * 2 ? query.trim() : ''
      const text = query.slice(0, 2048)
      const words = text.match(nameLike())?.slice(0, NAME_LIKE_CAP) ?? []
      const named = (whole.length <= LONGEST_NAME ? [whole, ...words] : words).map(findSlot)
      // A plain word such as `echo` counts as a name only in a list of names; in a sentence it is a word.
      const items = text.split(',', NAME_LIKE_CAP)
      const listed = items.length > 1 ? items.map((item) => findSlot(item.trim())) : []
      const slots = listed.includes(undefined) ? named : [...named, ...listed]
      return [...new Set(slots.filter((slot) => slot !== undefined))]
    },
    sections() {
      if (removedCount > 0) rebuild(buckets.length)
      return [entries.subarray(0, count * WIDTH), buckets, firstEntries]
    },
  }
}

/**
 * `GitHub.listIssues`, `github__list_issues` and `github list-issues` have the same key: their words in lower case,
 * joined by dots. Returns its two hashes; undefined for a name without letters or digits.
 */
function hashesOf(whole: string): { readonly key: number; readonly more: number } | undefined {
  const name = whole.slice(0, LONGEST_NAME)
  const text = NOT_ASCII.test(name)
    ? name
        .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1.$2')
        .toLowerCase()
        .replace(/[^\p{L}\p{N}]+/gu, '.')
    : name
  let key: number = SEEDS.key
  let more: number = SEEDS.more
  let gap = false
  let hasBegun = false
  let previous = 0
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at)
    const isUpper = code >= 65 && code <= 90
    const isLetter = isUpper || (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code > 127
    if (!isLetter) {
      gap = hasBegun
      previous = 0
      continue
    }
    const isBorder = isUpper && previous > 0 && !(previous >= 65 && previous <= 90)
    previous = code
    if (gap || isBorder) {
      key = Math.imul(key ^ DOT, 0x01000193)
      more = Math.imul(more ^ DOT, 0x01000193)
    }
    gap = false
    hasBegun = true
    if (isUpper) code += 32
    key = Math.imul(key ^ code, 0x01000193)
    more = Math.imul(more ^ (code + 0x9e), 0x01000193)
  }
  return hasBegun ? { key: mixHash(key), more: mixHash(more) } : undefined
}

function hashOf(text: string, seed: number): number {
  let hash = seed
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return mixHash(hash)
}

function mixHash(hash: number): number {
  const folded = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b)
  return folded ^ (folded >>> 16)
}
