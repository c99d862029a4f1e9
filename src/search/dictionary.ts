import { int32Of, type NumberArray, uint32Of, withRoom } from './packed-sections.ts'

/**
 * Assigns numbers to words, from 0 in order of arrival. Stored as bytes and a hash table, so loading parses nothing.
 */
export interface Dictionary {
  readonly size: number
  /** The number of a word, or -1 if it was never added. */
  find(word: string): number
  /** The number of a word; adds new words. */
  add(word: string): number
  wordOf(id: number): string
  /** The words that begin with the same letter as `word`, with their numbers. */
  withInitialOf(word: string): Generator<readonly [word: string, id: number]>
  sections(): NumberArray[]
}

/** Number of arrays that `sections()` returns. */
export const DICTIONARY_SECTIONS = 3
/** Longer words are cut; real texts do not contain any. */
const LONGEST_BYTES = 1024

/** @param saved result of `sections()`; used directly, not copied */
export function createDictionary(saved?: readonly Uint8Array[]): Dictionary {
  const encoder = new TextEncoder()
  const decoder = new TextDecoder()
  const scratch = new Uint8Array(LONGEST_BYTES)
  let bytes = saved?.[0] ?? new Uint8Array(1024)
  /** Byte offset of the end of each word. */
  let ends = saved ? uint32Of(saved[1]) : new Uint32Array(64)
  /** Open addressing, linear probing; number + 1, 0 for free. */
  let table = saved ? int32Of(saved[2]) : new Int32Array(256)
  let size = saved ? ends.length : 0
  let used = size > 0 ? (ends[size - 1] as number) : 0
  if (used > bytes.length || table.length <= size || (table.length & (table.length - 1)) !== 0)
    throw new Error('the index is damaged')

  function encode(word: string): number {
    const length = word.length
    if (length <= LONGEST_BYTES) {
      let at = 0
      for (; at < length; at++) {
        const code = word.charCodeAt(at)
        if (code > 127) break
        scratch[at] = code
      }
      if (at === length) return length
    }
    return encoder.encodeInto(word, scratch).written
  }

  function startOf(id: number): number {
    return id === 0 ? 0 : (ends[id - 1] as number)
  }

  /** The table position of the word in `scratch`, or the free position where it belongs. */
  function placeOf(length: number): number {
    const mask = table.length - 1
    let place = hashOf(scratch, 0, length) & mask
    for (;;) {
      const id = (table[place] as number) - 1
      if (id < 0) return place
      const start = startOf(id)
      if ((ends[id] as number) - start === length) {
        let at = 0
        while (at < length && bytes[start + at] === scratch[at]) at++
        if (at === length) return place
      }
      place = (place + 1) & mask
    }
  }

  function enlarge(): void {
    table = new Int32Array(table.length * 2)
    const mask = table.length - 1
    for (let id = 0; id < size; id++) {
      let place = hashOf(bytes, startOf(id), ends[id] as number) & mask
      while (table[place] !== 0) place = (place + 1) & mask
      table[place] = id + 1
    }
  }

  function wordOf(id: number): string {
    const end = ends[id] as number
    let word = ''
    for (let at = startOf(id); at < end; at++) {
      const code = bytes[at] as number
      // TextDecoder costs microseconds per call, and most words are ASCII.
      if (code > 127) return decoder.decode(bytes.subarray(startOf(id), end))
      word += String.fromCharCode(code)
    }
    return word
  }

  return {
    get size() {
      return size
    },
    find(word) {
      return (table[placeOf(encode(word))] as number) - 1
    },
    add(word) {
      const length = encode(word)
      const place = placeOf(length)
      const known = (table[place] as number) - 1
      if (known >= 0) return known
      bytes = withRoom(bytes, used + length)
      bytes.set(scratch.subarray(0, length), used)
      used += length
      ends = withRoom(ends, size + 1)
      ends[size] = used
      size++
      table[place] = size
      if (size * 2 > table.length) enlarge()
      return size - 1
    },
    wordOf,
    *withInitialOf(word) {
      const [initial = ''] = word
      const length = encode(initial)
      const wanted = scratch.slice(0, length)
      for (let id = 0; id < size; id++) {
        const start = startOf(id)
        let at = 0
        while (at < length && bytes[start + at] === wanted[at]) at++
        if (at === length && (ends[id] as number) - start >= length) yield [wordOf(id), id]
      }
    },
    sections() {
      return [bytes.subarray(0, used), ends.subarray(0, size), table]
    },
  }
}

/** FNV-1a with the high bits folded into the low ones, because the low ones address the table. */
function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193)
  return hash ^ (hash >>> 15)
}
