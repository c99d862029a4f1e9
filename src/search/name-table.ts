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
  let first = saved ? int32Of(saved[2]) : new Int32Array(64)
  let count = saved ? entries.length / WIDTH : 0
  let dead = 0
  if (!Number.isInteger(count) || buckets.length === 0 || (buckets.length & (buckets.length - 1)) !== 0)
    throw new Error('the index is damaged')

  function link(entry: number): void {
    const bucket = (entries[entry * WIDTH + KEY] as number) & (buckets.length - 1)
    entries[entry * WIDTH + NEXT] = buckets[bucket] as number
    buckets[bucket] = entry + 1
  }

  function put(slot: number, name: string, bare: boolean): void {
    const hashes = hashesOf(name)
    if (!hashes) return
    entries = withRoom(entries, (count + 1) * WIDTH)
    const at = count * WIDTH
    entries[at + KEY] = hashes.key
    entries[at + KEY_MORE] = hashes.more
    entries[at + LITERAL] = hashOf(name.toLowerCase(), SEEDS.literal)
    entries[at + OWNER] = slot * 2 + Number(bare)
    link(count)
    first[slot] ||= count + 1
    count++
    if (count > buckets.length) rebuild(buckets.length * 2)
  }

  /** Removes the entries of removed tools and rebuilds the buckets. */
  function rebuild(size: number): void {
    let liveCount = 0
    first.fill(0)
    for (let entry = 0; entry < count; entry++) {
      const owner = entries[entry * WIDTH + OWNER] as number
      if (owner < 0) continue
      entries.copyWithin(liveCount * WIDTH, entry * WIDTH, (entry + 1) * WIDTH)
      first[owner >> 1] ||= liveCount + 1
      liveCount++
    }
    count = liveCount
    dead = 0
    buckets = new Int32Array(size)
    for (let entry = 0; entry < count; entry++) link(entry)
  }

  function lookUp(written: string, bare: boolean, visible: (slot: number) => boolean): number | undefined {
    const hashes = hashesOf(written)
    if (!hashes) return undefined
    const { key: keyHash, more } = hashes
    const spelling = hashOf(written.toLowerCase(), SEEDS.literal)
    let seen: number | undefined
    let ambiguous = false
    let literal: number | undefined
    for (let entry = buckets[keyHash & (buckets.length - 1)] as number; entry > 0; ) {
      const at = (entry - 1) * WIDTH
      entry = entries[at + NEXT] as number
      const owner = entries[at + OWNER] as number
      if (owner < 0 || (owner & 1) !== Number(bare)) continue
      if (entries[at + KEY] !== keyHash || entries[at + KEY_MORE] !== more) continue
      const slot = owner >> 1
      const literally = entries[at + LITERAL] === spelling
      if (slot === literal || (!literally && (ambiguous || slot === seen)) || !visible(slot)) continue
      if (seen !== undefined && seen !== slot) ambiguous = true
      seen = slot
      if (!literally) continue
      if (literal !== undefined) return undefined
      literal = slot
    }
    return ambiguous ? literal : seen
  }

  return {
    add(slot, { names, bareName }) {
      first = withRoom(first, slot + 1)
      for (const name of names.slice(0, NAMES_CAP)) put(slot, name, false)
      put(slot, bareName, true)
    },
    remove(slot) {
      const from = (first[slot] ?? 0) - 1
      if (from < 0) return
      first[slot] = 0
      for (let entry = from; entry < count && (entries[entry * WIDTH + OWNER] as number) >> 1 === slot; entry++) {
        entries[entry * WIDTH + OWNER] = -1
        dead++
      }
      if (dead > 1000 && dead * 2 > count) rebuild(buckets.length)
    },
    match(query, visible) {
      const found = new Set<number>()
      const whole = query.length <= LONGEST_NAME * 2 ? query.trim() : ''
      const written = whole && whole.length <= LONGEST_NAME ? [whole] : []
      for (const word of query.slice(0, 2048).match(nameLike())?.slice(0, NAME_LIKE_CAP) ?? []) written.push(word)
      const named = (name: string): number | undefined => lookUp(name, false, visible) ?? lookUp(name, true, visible)
      for (const name of written) {
        const slot = named(name)
        if (slot !== undefined) found.add(slot)
      }
      // A plain word such as `echo` counts as a name only in a list of names; in a sentence it is a word.
      const items = query.slice(0, 2048).split(',', NAME_LIKE_CAP)
      const slots = items.length > 1 ? items.map((item) => named(item.trim())) : []
      if (!slots.includes(undefined)) for (const slot of slots) found.add(slot as number)
      return [...found]
    },
    sections() {
      if (dead > 0) rebuild(buckets.length)
      return [entries.subarray(0, count * WIDTH), buckets, first]
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
  let begun = false
  let before = 0
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at)
    const upper = code >= 65 && code <= 90
    const letter = upper || (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code > 127
    if (!letter) {
      gap = begun
      before = 0
      continue
    }
    const border = upper && before > 0 && !(before >= 65 && before <= 90)
    before = code
    if (gap || border) {
      key = Math.imul(key ^ DOT, 0x01000193)
      more = Math.imul(more ^ DOT, 0x01000193)
    }
    gap = false
    begun = true
    if (upper) code += 32
    key = Math.imul(key ^ code, 0x01000193)
    more = Math.imul(more ^ (code + 0x9e), 0x01000193)
  }
  return begun ? { key: mixed(key), more: mixed(more) } : undefined
}

function hashOf(text: string, seed: number): number {
  let hash = seed
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return mixed(hash)
}

function mixed(hash: number): number {
  const folded = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b)
  return folded ^ (folded >>> 16)
}
