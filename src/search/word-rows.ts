import { createDictionary } from './dictionary.ts'
import { int32Of, type NumberArray, uint32Of, withRoom } from './packed-sections.ts'
import { COUNT_MASK } from './postings.ts'
import type { SearchDocument } from './search-document.ts'
import { documentWords } from './terms.ts'
import { stemOf } from './tokenize.ts'

/**
 * The words of each document, with their weighted counts, as one row of numbers per slot. Words and stems share one
 * numbering.
 */
export type WordRows = ReturnType<typeof createWordRows>

/** Number of arrays that `sections()` returns. */
export const ROW_SECTIONS = 3

const SLOTS_CAP = 1 << 24
const WORDS_CAP = 1 << 23
const ROW_CAP = 4096
/** Weighted counts are stored in tenths. */
export const COUNT_SCALE = 10
/** With fewer words, removing unused ones is not worth the work. */
const FEW_WORDS = 4096
/** With fewer obsolete row entries, packing the rows before the next search is not worth the work. */
const FEW_OBSOLETE = 1 << 16
/** Row entry: word << 9 | of the name << 8 | count. Words of the name come first. */
const NAME_BIT = 1 << 8
const WORD_SHIFT = 9

/**
 * @param saved result of `sections()`; used directly, not copied
 * @param savedWords result of the dictionary's `sections()`
 * @throws Error if the sections do not belong together
 */
export function createWordRows(saved?: readonly Uint8Array[], savedWords?: readonly Uint8Array[]) {
  let dictionary = createDictionary(savedWords)
  /** Per word: number of its stem plus 1; 0 for an entry that is only a stem. */
  let stems = int32Of(saved?.[0] ?? new Uint8Array())
  /** Per slot: number of words plus 1; 0 for an empty slot. */
  let lengths = uint32Of(saved?.[1] ?? new Uint8Array())
  let starts = new Uint32Array(lengths.length)
  let entries = uint32Of(saved?.[2] ?? new Uint8Array())
  let used = 0
  /** Entries of documents that were replaced or removed. */
  let obsolete = 0
  let generation = 0
  let size = 0
  /** Highest slot ever used plus one. */
  let slots = lengths.length
  for (const [slot, length] of lengths.entries()) {
    if (length === 0) continue
    size++
    starts[slot] = used
    used += length - 1
  }
  if (used !== entries.length || stems.length !== dictionary.size) throw new Error('the index is damaged')

  const startOf = (slot: number): number => starts[slot] ?? 0
  const endOf = (slot: number): number => startOf(slot) + Math.max(1, lengths[slot] ?? 1) - 1

  /** The number of a document's word. Its stem gets a number too. */
  function addWord(text: string): number {
    const word = dictionary.add(text)
    stems = withRoom(stems, dictionary.size)
    if (stems[word] !== 0) return word
    const stem = dictionary.add(stemOf(text))
    stems = withRoom(stems, dictionary.size)
    stems[word] = stem + 1
    return word
  }

  function createRow(document: SearchDocument): number[] {
    const ofName: number[] = []
    const others: number[] = []
    const nameStems: number[] = []
    for (const [text, { weight, ofName: isInName }] of documentWords(document)) {
      if (ofName.length + others.length >= ROW_CAP || dictionary.size >= WORDS_CAP - 2) break
      const count = Math.min(COUNT_MASK, Math.max(1, Math.round(weight * COUNT_SCALE)))
      const word = addWord(text)
      const stem = stems[word] as number
      // Of several forms of one word in a name, only the first counts as part of the name.
      if (isInName && !nameStems.includes(stem)) {
        nameStems.push(stem)
        ofName.push(((word << WORD_SHIFT) | NAME_BIT | count) >>> 0)
      } else others.push(((word << WORD_SHIFT) | count) >>> 0)
    }
    return [...ofName, ...others]
  }

  function packEntries(): void {
    const packed = new Uint32Array(used - obsolete)
    used = 0
    for (let slot = 0; slot < slots; slot++) {
      const row = entries.subarray(startOf(slot), endOf(slot))
      packed.set(row, used)
      starts[slot] = used
      used += row.length
    }
    entries = packed
    obsolete = 0
  }

  function countUsedWords(): number {
    const isUsed = new Uint8Array(dictionary.size)
    for (const entry of entries) {
      const word = entry >>> WORD_SHIFT
      isUsed[word] = 1
      isUsed[(stems[word] as number) - 1] = 1
    }
    return isUsed.reduce((sum, flag) => sum + flag, 0)
  }

  function renumberWords(): void {
    generation++
    const previous = dictionary
    const renumbered = new Int32Array(previous.size)
    dictionary = createDictionary()
    stems = new Int32Array()
    for (const [at, entry] of entries.entries()) {
      const old = entry >>> WORD_SHIFT
      if (renumbered[old] === 0) renumbered[old] = addWord(previous.wordOf(old)) + 1
      entries[at] = ((((renumbered[old] as number) - 1) << WORD_SHIFT) | (entry & (NAME_BIT | COUNT_MASK))) >>> 0
    }
  }

  return {
    /** Number of slots that hold a document. */
    get size() {
      return size
    },
    /** Highest slot ever used plus one. */
    get slots() {
      return slots
    },
    /** Number of words and stems. */
    get wordCount() {
      return dictionary.size
    },
    /** Changes when words get new numbers. */
    get generation() {
      return generation
    },
    /** True if so many documents were replaced that `pack` should not wait for the next search. */
    get isSparse() {
      return obsolete > FEW_OBSOLETE && obsolete * 2 > used
    },
    /** The number of a word or stem, or -1 if no document ever contained it. */
    find: (text: string): number => dictionary.find(text),
    wordOf: (word: number): string => dictionary.wordOf(word),
    withInitialOf: (text: string) => dictionary.withInitialOf(text),
    stemOf: (word: number): number => (stems[word] as number) - 1,
    has: (slot: number): boolean => (lengths[slot] ?? 0) > 0,

    /** Sets the document of an empty slot. @throws RangeError if the slot is not a number from 0 to 16 million */
    set(slot: number, document: SearchDocument): void {
      if (!Number.isInteger(slot) || slot < 0 || slot >= SLOTS_CAP) throw new RangeError(`no slot ${slot}`)
      starts = withRoom(starts, slot + 1)
      lengths = withRoom(lengths, slot + 1)
      slots = Math.max(slots, slot + 1)
      const row = createRow(document)
      entries = withRoom(entries, used + row.length)
      entries.set(row, used)
      starts[slot] = used
      lengths[slot] = row.length + 1
      used += row.length
      size++
    },

    clear(slot: number): void {
      obsolete += endOf(slot) - startOf(slot)
      lengths[slot] = 0
      size--
    },

    /** Removes the entries of removed documents, and unused words if they are the majority. */
    pack(): void {
      packEntries()
      if (dictionary.size > FEW_WORDS && countUsedWords() * 2 < dictionary.size) renumberWords()
    },

    /** The slots that hold a document, in ascending order. */
    usedSlots(): number[] {
      const usedSlots: number[] = []
      for (let slot = 0; slot < slots; slot++) if (lengths[slot] !== 0) usedSlots.push(slot)
      return usedSlots
    },

    /** Calls `onWord` with each word of the slot's document and its count. */
    visit(slot: number, onWord: (word: number, count: number) => void): void {
      const end = endOf(slot)
      for (let at = startOf(slot); at < end; at++) {
        const entry = entries[at] as number
        onWord(entry >>> WORD_SHIFT, entry & COUNT_MASK)
      }
    },

    /**
     * Share of the document's name that consists of stems with a flag, 0 to 1.
     * @param weightOf a stem
     */
    nameCoverageOf(slot: number, flags: Uint8Array, weightOf: (stem: number) => number): number {
      // Local copies, because reading closure variables in this loop is slower.
      const row = entries
      const stemOfWord = stems
      const start = startOf(slot)
      const end = endOf(slot)
      let anyFlag = 0
      let nameEnd = start
      for (; nameEnd < end; nameEnd++) {
        const entry = row[nameEnd] as number
        if ((entry & NAME_BIT) === 0) break
        anyFlag |= flags[(stemOfWord[entry >>> WORD_SHIFT] as number) - 1] as number
      }
      // Most names contain no stem with a flag.
      if (anyFlag === 0) return 0
      let covered = 0
      let all = 0
      for (let at = start; at < nameEnd; at++) {
        const stem = (stemOfWord[(row[at] as number) >>> WORD_SHIFT] as number) - 1
        const weight = weightOf(stem)
        all += weight
        if (flags[stem] === 1) covered += weight
      }
      return covered / all
    },

    /** See `LexicalIndex.copyStems`. */
    copyStems(slot: number, into: Int32Array, at: number, most: number): number {
      const row = entries
      const stemOfWord = stems
      const start = startOf(slot)
      const count = Math.min(most, endOf(slot) - start)
      for (let index = 0; index < count; index++) {
        const entry = row[start + index] as number
        const stem = (stemOfWord[entry >>> WORD_SHIFT] as number) - 1
        into[at + index] = (stem << 1) | ((entry & NAME_BIT) === 0 ? 0 : 1)
      }
      return count
    },

    sections: (): NumberArray[] => [stems.subarray(0, dictionary.size), lengths.subarray(0, slots), entries],
    wordSections: (): NumberArray[] => dictionary.sections(),
  }
}
