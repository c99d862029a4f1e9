import { createCorrector } from './corrector.ts'
import { createDictionary, DICTIONARY_SECTIONS } from './dictionary.ts'
import { createNameTable, NAME_SECTIONS } from './name-table.ts'
import { int32Of, packSections, uint32Of, unpackSections, withRoom } from './packed-sections.ts'
import { COUNT_MASK, invert, NO_POSTINGS, type Postings, removeEntry, SLOT_SHIFT } from './postings.ts'
import type { SearchDocument } from './search-document.ts'
import { synonymGroups } from './synonyms.ts'
import {
  documentWords,
  PART_WEIGHT,
  parseQuery,
  type QueryWord,
  splitJoined,
  TERM_WEIGHTS,
  termsOf,
  unswap,
  type WordTerms,
} from './terms.ts'
import { stemOf } from './tokenize.ts'
import { createTopK, type TopK } from './top-k.ts'

export interface LexicalHit {
  readonly slot: number
  /** 0 to 1: share of the best possible score for the query; 1 only for an exact name. */
  readonly score: number
  /** Share of the tool's own name that the query covers, weighted by rarity, 0 to 1. */
  readonly coverage: number
  readonly exactName: boolean
}

export interface LexicalMatches {
  /** Best first; ties by slot. */
  readonly hits: readonly LexicalHit[]
  /** Score of any slot, accepted or not; 0 for no match. Valid until the next search. */
  scoreOf(slot: number): number
  /** Name coverage of any slot. Valid until the next search. */
  coverageOf(slot: number): number
  /**
   * The query words that the slot's document contains in some form, lower case without accents. Valid until the next
   * search.
   */
  termsOf(slot: number): readonly string[]
  /** Unknown query words, with the known word that was probably meant. */
  readonly corrections: ReadonlyMap<string, string>
  readonly queryWords: number
  /** Query words that no document contains in any form. */
  readonly unknownWords: readonly string[]
  /**
   * Share of the query's words that some document contains, weighted by rarity, 0 to 1; 0 for a query without words.
   */
  readonly known: number
}

export interface LexicalOptions {
  readonly limit: number
  /** False hides a slot as if it were empty. Called only for slots that would be in the answer. */
  readonly accept: (slot: number) => boolean
}

/**
 * Keyword ranking of documents in numbered slots: BM25 with one saturation (Robertson, Zaragoza, "The Probabilistic
 * Relevance Framework", 2009) over the weighted counts of all fields, as in BM25F.
 */
export interface LexicalIndex {
  /** Number of slots that hold a document. */
  readonly size: number
  /** Sets the document of a slot (0 to 16 million). Cheap; the next search indexes it. */
  set(slot: number, document: SearchDocument): void
  clear(slot: number): void
  /** Accepts any query without throwing. */
  search(query: string, options: LexicalOptions): LexicalMatches
  /** The whole index as one buffer that `loadLexicalIndex` uses without parsing. */
  save(): Uint8Array
  /**
   * Writes the stems of a slot's document, name stems first, to `into` from `at` on, as number << 1, plus 1 for name
   * stems. A stem can occur twice.
   * @returns how many were written, at most `most`
   */
  copyStems(slot: number, into: Int32Array, at: number, most: number): number
  stemText(stem: number): string
  /**
   * Rarity of a stem: 0 if every document has it, highest if none has.
   * @param accept documents that may be taken into account; a stem that only others have counts as unknown
   */
  rarityOf(stem: string | number, accept?: (slot: number) => boolean): number
  /** Changes when stems get new numbers. */
  readonly generation: number
}

/** Tuned on the labelled sets; see `pegboard eval`. */
const RANKING = {
  saturation: 0.9,
  lengthNorm: 0.45,
  /** Maximum bonus for covering the tool's own name, weighted by rarity. */
  nameCoverage: 0.15,
  /** Maximum number of terms looked up; the rarest ones of a long query. */
  maxTerms: 30,
  /** Weight of a word found by swapping two letters or splitting a joined word, relative to a correct one. */
  respelt: 0.8,
  /** Weight of an uninformative word in a small catalog. In a large one, rarity has the same effect. */
  faint: 0.6,
  faintDocuments: 1000,
  /** Maximum number of unknown words that are corrected. */
  maxRespelt: 16,
  /** If the best score is below this, unknown words are also matched as prefixes and misspellings. */
  poor: 0.5,
  maxGuessedWords: 4,
  guessesPerWord: 6,
  /** If the best score is below this, nothing is relevant. */
  floor: 0.02,
  highest: 0.99,
} as const

const MAGIC = 0x58454c50
/** Scores have 32-bit precision. */
const ROUNDING = 1e-6
/** Increased when the layout changes, or the words that a text yields. */
const VERSION = 1
const OWN_SECTIONS = 8
const SLOTS_CAP = 1 << 24
const WORDS_CAP = 1 << 23
const ROW_CAP = 4096
/** Weighted counts are stored in tenths. */
const COUNT_SCALE = 10
/** With fewer words, removing unused ones is not worth the work. */
const FEW_WORDS = 4096
/** Maximum number of changed slots kept apart before the whole index is rebuilt. */
const RECENT_CAP = 2048
/** Minimum number of obsolete row entries before the rows are packed. */
const WASTE_CAP = 1 << 16

/** Row entry: word << 9 | of the name << 8 | count. Words of the name come first. */
const NAME_BIT = 1 << 8
const WORD_SHIFT = 9

/** Fields of a word record. */
const WORD = {
  /** Number of its stem plus 1; 0 for an entry that is only a stem. */
  stem: 0,
  /** Next word of the same stem plus 1. */
  next: 1,
  documents: 2,
  /** For a stem: its first word plus 1. */
  first: 3,
  /** For a stem: number of documents with any of its words. */
  stemDocuments: 4,
  width: 5,
} as const

/** State of a slot: empty, postings among the recent ones, or postings among the settled ones. */
const EMPTY = 0
const RECENT = 1
const SETTLED = 2

/** A unit of lookup: one word, all words of a stem, or all words of a synonym group. */
interface Term {
  readonly words: readonly number[]
  /** The query word it comes from; used to report matches. */
  readonly source: string
  /** Boost × rarity. */
  readonly worth: number
}

interface Group {
  readonly words: readonly number[]
  readonly documents: number
}

interface Plan {
  /** The rarest terms. */
  readonly terms: readonly Term[]
  readonly stems: readonly number[]
  readonly unknown: readonly string[]
  readonly known: number
  /** Unknown words that were replaced. */
  readonly corrections: Map<string, string>
  /** Score of a hypothetical document that contains every term infinitely often. */
  readonly ideal: number
}

export const createLexicalIndex = (): LexicalIndex => openLexicalIndex()

/**
 * Loads an index that `save` wrote. The buffer is used directly: changed slots are written to it.
 * @throws if it was made by another version, truncated or damaged
 */
export function loadLexicalIndex(bytes: Uint8Array): LexicalIndex {
  return openLexicalIndex(unpackSections(MAGIC, VERSION, bytes, OWN_SECTIONS + DICTIONARY_SECTIONS + NAME_SECTIONS))
}

function openLexicalIndex(saved?: readonly Uint8Array[]): LexicalIndex {
  let dictionary = createDictionary(saved?.slice(OWN_SECTIONS))
  const names = createNameTable(saved?.slice(OWN_SECTIONS + DICTIONARY_SECTIONS))
  let words = int32Of(saved?.[0] ?? new Uint8Array())
  // Per slot: state, start and length of its row, and length of its document.
  let states = saved?.[1] ?? new Uint8Array()
  let rowStarts = uint32Of(saved?.[2] ?? new Uint8Array())
  let rowLengths = uint32Of(saved?.[3] ?? new Uint8Array())
  let lengths = uint32Of(saved?.[4] ?? new Uint8Array())
  let rows = uint32Of(saved?.[5] ?? new Uint8Array())
  let settled: Postings = saved ? { starts: uint32Of(saved[6]), entries: uint32Of(saved[7]) } : NO_POSTINGS
  let recent = NO_POSTINGS
  const recentSlots = new Set<number>()
  let stale = true
  let refreshed = 0
  let generation = 0
  let rowsUsed = rows.length
  let rowsWasted = 0
  let size = 0
  let totalLength = 0
  /** Highest slot ever used plus one. */
  let slots = states.length
  for (let slot = 0; slot < slots; slot++) {
    if (states[slot] === EMPTY) continue
    size++
    totalLength += lengths[slot] as number
  }
  if (
    [rowStarts, rowLengths, lengths].some(({ length }) => length !== slots) ||
    words.length !== dictionary.size * WORD.width ||
    (settled.starts[settled.starts.length - 1] as number) !== settled.entries.length
  )
    throw new Error('the index is damaged')

  // Reused between queries to avoid allocations.
  let norms = new Float32Array()
  let scores = new Float32Array()
  let counts = new Uint16Array()
  let gathered = new Uint32Array()
  let gatheredCount = 0
  /** Numbers of words, cached while many documents are added. */
  const numbers = new Map<string, number>()
  /** Per stem: the last row it was counted for. */
  let stamps = new Uint32Array()
  let stamp = 0
  /** Per stem: 1 if the query contains it. */
  let asked = new Uint8Array()
  let plan: Plan = { terms: [], stems: [], unknown: [], known: 0, corrections: new Map(), ideal: 1 }
  const groups = new Map<number, Group>()

  const corrector = createCorrector({
    version: () => refreshed,
    *withInitialOf(word) {
      for (const [text, id] of dictionary.withInitialOf(word)) if (documentsOf(id) > 0) yield text
    },
  })

  function field(word: number, of: number): number {
    return words[word * WORD.width + of] as number
  }

  function addTo(word: number, of: number, amount: number): void {
    const at = word * WORD.width + of
    words[at] = (words[at] as number) + amount
  }

  function documentsOf(word: number): number {
    return word < 0 ? 0 : field(word, WORD.documents)
  }

  function rarity(documents: number): number {
    return Math.log(1 + (size - documents + 0.5) / (documents + 0.5))
  }

  /** The number of a document's word. Its stem gets a number too. */
  function numberOf(text: string): number {
    const known = numbers.get(text)
    if (known !== undefined) return known
    const word = dictionary.add(text)
    numbers.set(text, word)
    words = withRoom(words, dictionary.size * WORD.width)
    if (field(word, WORD.stem) > 0) return word
    const stem = dictionary.add(stemOf(text))
    words = withRoom(words, dictionary.size * WORD.width)
    words[word * WORD.width + WORD.stem] = stem + 1
    words[word * WORD.width + WORD.next] = field(stem, WORD.first)
    words[stem * WORD.width + WORD.first] = word + 1
    return word
  }

  /** Adds (1) or removes (-1) a row in the document counts. */
  function countRow(slot: number, by: 1 | -1): void {
    stamps = withRoom(stamps, dictionary.size)
    stamp++
    const start = rowStarts[slot] as number
    const end = start + (rowLengths[slot] as number)
    for (let at = start; at < end; at++) {
      const word = (rows[at] as number) >>> WORD_SHIFT
      const stem = field(word, WORD.stem) - 1
      addTo(word, WORD.documents, by)
      if (stamps[stem] === stamp) continue
      stamps[stem] = stamp
      addTo(stem, WORD.stemDocuments, by)
    }
  }

  function set(slot: number, document: SearchDocument): void {
    if (!Number.isInteger(slot) || slot < 0 || slot >= SLOTS_CAP) throw new RangeError(`no slot ${slot}`)
    clear(slot)
    growTo(slot + 1)
    const row: number[] = []
    const others: number[] = []
    const nameStems: number[] = []
    let length = 0
    for (const [text, { weight, ofName }] of documentWords(document)) {
      if (row.length + others.length >= ROW_CAP || dictionary.size >= WORDS_CAP - 2) break
      const count = Math.min(COUNT_MASK, Math.max(1, Math.round(weight * COUNT_SCALE)))
      length += count
      const word = numberOf(text)
      const stem = field(word, WORD.stem)
      // Of several forms of one word in a name, only the first counts as part of the name.
      if (ofName && !nameStems.includes(stem)) {
        nameStems.push(stem)
        row.push(((word << WORD_SHIFT) | NAME_BIT | count) >>> 0)
      } else others.push(((word << WORD_SHIFT) | count) >>> 0)
    }
    for (const entry of others) row.push(entry)
    rows = withRoom(rows, rowsUsed + row.length)
    rows.set(row, rowsUsed)
    rowStarts[slot] = rowsUsed
    rowLengths[slot] = row.length
    rowsUsed += row.length
    lengths[slot] = length
    states[slot] = RECENT
    size++
    totalLength += length
    countRow(slot, 1)
    names.add(slot, document)
    recentSlots.add(slot)
    stale = true
    if (rowsWasted > WASTE_CAP && rowsWasted * 2 > rowsUsed) settle()
  }

  function clear(slot: number): void {
    const state = states[slot] ?? EMPTY
    if (state === EMPTY) return
    countRow(slot, -1)
    if (state === SETTLED) visitRow(slot, (word) => removeEntry(settled, word, slot))
    names.remove(slot)
    recentSlots.delete(slot)
    states[slot] = EMPTY
    size--
    totalLength -= lengths[slot] as number
    rowsWasted += rowLengths[slot] as number
    rowLengths[slot] = 0
    stale = true
  }

  function growTo(count: number): void {
    states = withRoom(states, count)
    rowStarts = withRoom(rowStarts, count)
    rowLengths = withRoom(rowLengths, count)
    lengths = withRoom(lengths, count)
    slots = Math.max(slots, count)
  }

  function visitRow(slot: number, see: (word: number, count: number) => void): void {
    const start = rowStarts[slot] as number
    const end = start + (rowLengths[slot] as number)
    for (let at = start; at < end; at++) see((rows[at] as number) >>> WORD_SHIFT, (rows[at] as number) & COUNT_MASK)
  }

  /** Makes all changes since the last search searchable. */
  function refresh(): void {
    if (!stale) return
    stale = false
    refreshed++
    groups.clear()
    numbers.clear()
    if (recentSlots.size > RECENT_CAP) settle()
    else if (recentSlots.size === 0) recent = NO_POSTINGS
    else
      recent = invert(
        dictionary.size,
        [...recentSlots].sort((a, b) => a - b),
        visitRow,
      )
    if (scores.length < slots) {
      const room = states.length
      scores = new Float32Array(room)
      counts = new Uint16Array(room)
      gathered = new Uint32Array(room)
      norms = new Float32Array(room)
    }
    const average = totalLength / Math.max(1, size)
    const { saturation, lengthNorm } = RANKING
    for (let slot = 0; slot < slots; slot++) {
      const length = (lengths[slot] as number) / average
      norms[slot] = saturation * COUNT_SCALE * (1 - lengthNorm + lengthNorm * length)
    }
  }

  /** Rebuilds the postings of all rows, without cleared ones. */
  function settle(): void {
    const live: number[] = []
    for (let slot = 0; slot < slots; slot++) if (states[slot] !== EMPTY) live.push(slot)
    if (rowsWasted > 0 || rows.length - rowsUsed > rowsUsed / 8) packRows(live)
    let wordsInUse = 0
    for (let word = 0; word < dictionary.size; word++)
      if (field(word, WORD.stemDocuments) + documentsOf(word) > 0) wordsInUse++
    if (dictionary.size > FEW_WORDS && wordsInUse * 2 < dictionary.size) renumberWords(live)
    settled = invert(dictionary.size, live, visitRow)
    recent = NO_POSTINGS
    recentSlots.clear()
    for (const slot of live) states[slot] = SETTLED
  }

  function packRows(live: readonly number[]): void {
    const packed = new Uint32Array(rowsUsed - rowsWasted)
    let used = 0
    for (const slot of live) {
      const start = rowStarts[slot] as number
      const length = rowLengths[slot] as number
      packed.set(rows.subarray(start, start + length), used)
      rowStarts[slot] = used
      used += length
    }
    rows = packed
    rowsUsed = used
    rowsWasted = 0
  }

  /** Removes words that no document contains any more. */
  function renumberWords(live: readonly number[]): void {
    generation++
    const before = dictionary
    const renumbered = new Int32Array(before.size)
    numbers.clear()
    dictionary = createDictionary()
    words = new Int32Array()
    for (const slot of live) {
      const start = rowStarts[slot] as number
      const end = start + (rowLengths[slot] as number)
      for (let at = start; at < end; at++) {
        const entry = rows[at] as number
        const old = entry >>> WORD_SHIFT
        if (renumbered[old] === 0) renumbered[old] = numberOf(before.wordOf(old)) + 1
        rows[at] = ((((renumbered[old] as number) - 1) << WORD_SHIFT) | (entry & (NAME_BIT | COUNT_MASK))) >>> 0
      }
      countRow(slot, 1)
    }
  }

  function wordsOfStem(stem: number): number[] {
    const found: number[] = []
    for (let word = field(stem, WORD.first); word > 0; word = field(word - 1, WORD.next))
      if (documentsOf(word - 1) > 0) found.push(word - 1)
    return found
  }

  /** The words of a synonym group that occur in documents, and how many documents contain any of them. */
  function groupOf(group: number): Group {
    const known = groups.get(group)
    if (known) return known
    const members: number[] = []
    for (const text of synonymGroups().stemsOf[group] ?? []) {
      const stem = dictionary.find(text)
      if (stem >= 0) members.push(...wordsOfStem(stem))
    }
    gather(members)
    const found = { words: members, documents: gatheredCount }
    for (let at = 0; at < gatheredCount; at++) counts[gathered[at] as number] = 0
    groups.set(group, found)
    return found
  }

  /**
   * True if a visible document contains any of these words. Words that only hidden documents contain count as
   * unknown.
   */
  function isSeen(wanted: readonly number[], accept: (slot: number) => boolean): boolean {
    for (const word of wanted)
      for (const { starts, entries } of [settled, recent]) {
        const end = starts[word + 1] ?? 0
        for (let at = starts[word] ?? 0; at < end; at++) {
          const entry = entries[at] as number
          if ((entry & COUNT_MASK) !== 0 && accept(entry >>> SLOT_SHIFT)) return true
        }
      }
    return false
  }

  function planFor(queryWords: readonly QueryWord[], accept: (slot: number) => boolean): Plan {
    const terms = new Map<string, Term>()
    const stems: number[] = []
    const unknown: string[] = []
    const corrections = new Map<string, string>()
    let ideal = 0
    let knownRarity = 0
    let allRarity = 0
    const faint = (RANKING.faint * RANKING.faintDocuments + size) / (RANKING.faintDocuments + size)
    for (const word of queryWords) {
      let known = false
      const weight = word.faint ? faint : 1
      const want = (key: string, found: readonly number[], boost: number, documents: number): void => {
        if (documents === 0 || !isSeen(found, accept)) return
        known = true
        const worth = boost * rarity(documents)
        if ((terms.get(key)?.worth ?? 0) < worth) terms.set(key, { words: found, source: word.word, worth })
      }
      const wantWord = (form: WordTerms, factor: number): void => {
        const literal = dictionary.find(form.word)
        want(`w${literal}`, [literal], TERM_WEIGHTS.word * factor, documentsOf(literal))
        const stem = dictionary.find(form.stem)
        if (stem >= 0) want(`s${stem}`, wordsOfStem(stem), TERM_WEIGHTS.stem * factor, field(stem, WORD.stemDocuments))
        if (form.group === undefined) return
        const group = groupOf(form.group)
        want(`g${form.group}`, group.words, TERM_WEIGHTS.synonym * factor, group.documents)
      }
      wantWord(word, weight)
      for (const part of word.parts) wantWord(part, PART_WEIGHT * weight)
      if (!known && unknown.length < RANKING.maxRespelt) {
        const swapped = unswap(word.word, (text) => isSeen([dictionary.find(text)], accept))
        const pieces = swapped
          ? [swapped]
          : splitJoined(word.word, (text) => {
              const piece = dictionary.find(text)
              return isSeen([piece], accept) ? documentsOf(piece) : 0
            })
        for (const piece of pieces ?? []) wantWord(termsOf(piece), RANKING.respelt)
        if (pieces) corrections.set(word.word, pieces.join(' '))
      }
      if (!known) unknown.push(word.word)
      for (const { stem } of word.parts) stems.push(dictionary.find(stem))
      const stem = dictionary.find(word.stem)
      stems.push(stem)
      const stemDocuments = stem < 0 || !isSeen(wordsOfStem(stem), accept) ? 0 : field(stem, WORD.stemDocuments)
      const documents =
        stemDocuments === 0 && known && word.group !== undefined ? groupOf(word.group).documents : stemDocuments
      // A synonym alone, or no match, is not a full match, because the word could have occurred literally.
      if (stemDocuments === 0) ideal += weight * rarity(documents) * (TERM_WEIGHTS.word + TERM_WEIGHTS.stem)
      allRarity += weight * rarity(documents)
      if (known) knownRarity += weight * rarity(documents)
    }
    const kept = [...terms.values()].sort((a, b) => b.worth - a.worth).slice(0, RANKING.maxTerms)
    for (const { worth } of kept) ideal += worth
    return {
      terms: kept,
      stems: stems.filter((stem) => stem >= 0),
      unknown,
      known: allRarity > 0 ? knownRarity / allRarity : 0,
      corrections,
      ideal,
    }
  }

  /** Adds a term's share of `ideal` to the scores of all documents that contain it. */
  function score({ words: wanted, worth }: Term, ideal: number): void {
    const weight = worth / ideal
    if (wanted.length === 1) {
      scoreWord(settled, wanted[0] as number, weight)
      scoreWord(recent, wanted[0] as number, weight)
      return
    }
    gather(wanted)
    const from = gathered
    const sums = counts
    const into = scores
    const lengths = norms
    for (let at = 0; at < gatheredCount; at++) {
      const slot = from[at] as number
      const count = sums[slot] as number
      sums[slot] = 0
      into[slot] = (into[slot] as number) + (weight * count) / (count + (lengths[slot] as number))
    }
  }

  function scoreWord({ starts, entries }: Postings, word: number, weight: number): void {
    // Local copies, because reading closure variables in this loop is slower.
    const into = scores
    const lengths = norms
    const end = starts[word + 1] ?? 0
    for (let at = starts[word] ?? 0; at < end; at++) {
      const entry = entries[at] as number
      const count = entry & COUNT_MASK
      if (count === 0) continue
      const slot = entry >>> SLOT_SHIFT
      into[slot] = (into[slot] as number) + (weight * count) / (count + (lengths[slot] as number))
    }
  }

  /** Sums the counts of several words into `counts` and collects their slots in `gathered`. */
  function gather(wanted: readonly number[]): void {
    gatheredCount = 0
    for (const word of wanted) {
      gatherWord(settled, word)
      gatherWord(recent, word)
    }
  }

  function gatherWord({ starts, entries }: Postings, word: number): void {
    const end = starts[word + 1] ?? 0
    const sums = counts
    const into = gathered
    let found = gatheredCount
    for (let at = starts[word] ?? 0; at < end; at++) {
      const entry = entries[at] as number
      const count = entry & COUNT_MASK
      if (count === 0) continue
      const slot = entry >>> SLOT_SHIFT
      const before = sums[slot] as number
      if (before === 0) into[found++] = slot
      sums[slot] = before + count
    }
    gatheredCount = found
  }

  function coverageOf(slot: number): number {
    const entries = rows
    const table = words
    const flags = asked
    const start = rowStarts[slot] ?? 0
    const end = start + (rowLengths[slot] ?? 0)
    let any = 0
    let ofName = start
    for (; ofName < end; ofName++) {
      const entry = entries[ofName] as number
      if ((entry & NAME_BIT) === 0) break
      any |= flags[(table[(entry >>> WORD_SHIFT) * WORD.width + WORD.stem] as number) - 1] as number
    }
    if (any === 0) return 0
    let covered = 0
    let all = 0
    for (let at = start; at < ofName; at++) {
      const stem = stemAt(at)
      const worth = rarity(field(stem, WORD.stemDocuments))
      all += worth
      if (flags[stem] === 1) covered += worth
    }
    return covered / all
  }

  function stemAt(at: number): number {
    return field((rows[at] as number) >>> WORD_SHIFT, WORD.stem) - 1
  }

  function boosted(slot: number): number {
    return Math.min(RANKING.highest, (scores[slot] as number) * (1 + RANKING.nameCoverage * coverageOf(slot)))
  }

  /** The best scored slots. */
  function rank(limit: number, accept: (slot: number) => boolean): LexicalHit[] {
    const best = createTopK(limit)
    // Local copies, because reading closure variables in this loop is slower.
    const from = scores
    const end = slots
    let least = leastFor(best)
    for (let slot = 0; slot < end; slot++) {
      if ((from[slot] as number) <= least) continue
      const reached = boosted(slot)
      if (!best.wants(slot, reached) || !accept(slot)) continue
      best.add(slot, reached)
      least = leastFor(best)
    }
    return best.list().map((hit) => ({ ...hit, coverage: coverageOf(hit.slot), exactName: false }))
  }

  function leastFor(best: TopK): number {
    return Math.max(0, best.least / (1 + RANKING.nameCoverage) - ROUNDING)
  }

  /** Terms for words that no document contains, treated as prefixes or misspellings of known words. */
  function guesses({ unknown, corrections }: Plan, accept: (slot: number) => boolean): Term[] {
    if (unknown.length === 0 || unknown.length > RANKING.maxGuessedWords) return []
    return unknown.flatMap((word) =>
      corrector
        .nearest(word, 4 * RANKING.guessesPerWord)
        .map(({ word: text, closeness }) => ({ text, closeness, guess: dictionary.find(text) }))
        .filter(({ guess }) => isSeen([guess], accept))
        .slice(0, RANKING.guessesPerWord)
        .map(({ text, closeness, guess }) => {
          if (!corrections.has(word)) corrections.set(word, text)
          return { words: [guess], source: text, worth: closeness * rarity(documentsOf(guess)) }
        }),
    )
  }

  function search(query: string, { limit, accept }: LexicalOptions): LexicalMatches {
    scores.fill(0)
    refresh()
    asked = withRoom(asked, dictionary.size)
    const queryWords = size > 0 ? parseQuery(query) : []
    for (const stem of plan.stems) asked[stem] = 0
    plan = planFor(queryWords, accept)
    for (const stem of plan.stems) asked[stem] = 1
    for (const term of plan.terms) score(term, plan.ideal)
    const most = Math.min(size, Math.max(0, Math.floor(limit) || 0))
    const named = most > 0 ? names.match(query, accept) : []
    let hits = rank(most, accept)
    let looked = plan.terms
    if (named.length === 0 && (hits[0]?.score ?? 0) < RANKING.poor) {
      const guessed = guesses(plan, accept)
      for (const term of guessed) score(term, plan.ideal)
      if (guessed.length > 0) hits = rank(most, accept)
      looked = [...looked, ...guessed]
    }
    if (named.length === 0 && (hits[0]?.score ?? 0) < RANKING.floor) hits = []
    const exact = named.map((slot): LexicalHit => ({ slot, score: 1, coverage: coverageOf(slot), exactName: true }))
    return {
      hits: [...exact, ...hits.filter(({ slot }) => !named.includes(slot))].slice(0, Math.max(most, exact.length)),
      scoreOf: (slot) => (named.includes(slot) ? 1 : states[slot] ? boosted(slot) : 0),
      coverageOf,
      termsOf: (slot) => matchedWords(slot, queryWords, looked),
      corrections: plan.corrections,
      queryWords: queryWords.length,
      unknownWords: plan.unknown,
      known: plan.known,
    }
  }

  function matchedWords(slot: number, queryWords: readonly QueryWord[], looked: readonly Term[]): string[] {
    const has = new Set<number>()
    if (states[slot]) visitRow(slot, (word) => has.add(word))
    const found = new Set<string>()
    for (const { words: wanted, source } of looked) if (wanted.some((word) => has.has(word))) found.add(source)
    const inOrder = queryWords.map(({ word }) => word).filter((word) => found.has(word))
    return [...new Set([...inOrder, ...found])]
  }

  function save(): Uint8Array {
    if (recentSlots.size > 0 || rowsWasted > 0) settle()
    return packSections(MAGIC, VERSION, [
      words.subarray(0, dictionary.size * WORD.width),
      states.subarray(0, slots),
      rowStarts.subarray(0, slots),
      rowLengths.subarray(0, slots),
      lengths.subarray(0, slots),
      rows.subarray(0, rowsUsed),
      settled.starts,
      settled.entries,
      ...dictionary.sections(),
      ...names.sections(),
    ])
  }

  return {
    get size() {
      return size
    },
    set,
    clear,
    search,
    save,
    copyStems(slot, into, at, most) {
      const entries = rows
      const table = words
      const start = rowStarts[slot] ?? 0
      const count = Math.min(most, rowLengths[slot] ?? 0)
      for (let index = 0; index < count; index++) {
        const entry = entries[start + index] as number
        const stem = (table[(entry >>> WORD_SHIFT) * WORD.width + WORD.stem] as number) - 1
        into[at + index] = (stem << 1) | ((entry & NAME_BIT) === 0 ? 0 : 1)
      }
      return count
    },
    stemText: (stem) => dictionary.wordOf(stem),
    rarityOf(given, accept) {
      const stem = typeof given === 'number' ? given : dictionary.find(given)
      const isThere = stem >= 0 && (accept === undefined || isSeen(wordsOfStem(stem), accept))
      return rarity(isThere ? field(stem, WORD.stemDocuments) : 0)
    },
    get generation() {
      return generation
    },
  }
}
