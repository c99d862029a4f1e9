/** Postings by word: those of word w are at `starts[w]` to `starts[w + 1]`, ordered by slot. */
export interface Postings {
  readonly starts: Uint32Array
  /** slot << 8 | count */
  readonly entries: Uint32Array
}

/** Bits of an entry: the slot is shifted by this much, the rest is the count. */
export const SLOT_SHIFT = 8
export const COUNT_MASK = 0xff

/**
 * Converts rows (the words of each slot) into postings (the slots of each word) by counting sort.
 * @param words number of words
 * @param slots in ascending order
 * @param visit calls `onWord` with every word of a slot and its count
 */
export function invert(
  words: number,
  slots: Iterable<number>,
  visit: (slot: number, onWord: (word: number, count: number) => void) => void,
): Postings {
  const starts = new Uint32Array(words + 1)
  for (const slot of slots) {
    visit(slot, (word) => {
      starts[word + 1] = (starts[word + 1] as number) + 1
    })
  }
  for (let word = 0; word < words; word++) starts[word + 1] = (starts[word + 1] as number) + (starts[word] as number)
  const entries = new Uint32Array(starts[words] as number)
  const next = starts.slice()
  for (const slot of slots) {
    visit(slot, (word, count) => {
      const at = next[word] as number
      entries[at] = ((slot << SLOT_SHIFT) | count) >>> 0
      next[word] = at + 1
    })
  }
  return { starts, entries }
}
