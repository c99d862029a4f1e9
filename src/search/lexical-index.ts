import { createCorrector } from './corrector.ts'
import { createDictionary, DICTIONARY_SECTIONS } from './dictionary.ts'
import { createNameTable, NAME_SECTIONS } from './name-table.ts'
import { int32Of, packSections, uint32Of, unpackSections, withRoom } from './packed-sections.ts'
import { COUNT_MASK, invert, type Postings, SLOT_SHIFT } from './postings.ts'
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
  undoSwap,
  type WordTerms,
} from './terms.ts'
import { stemOf } from './tokenize.ts'
import { createTopK, type TopK } from './top-k.ts'

export interface LexicalHit {
  readonly slot: number
  /** 0 to 1: share of the best possible score for the query; 1 only for an exact name. */
  readonly score: number
  readonly exactName: boolean
}

export interface LexicalMatches {
  /** Best first; ties by slot. */
  readonly hits: readonly LexicalHit[]
  /** Score of any slot, accepted or not; 0 for no match. Valid until the next search. */
  scoreOf(slot: number): number
  /**
   * The query words that the slot's document contains in some form, lower case without accents. Valid until the next
   * search.
   */
  termsOf(slot: number): readonly string[]
  /** Unknown query words, with the known word that was probably meant. */
  readonly corrections: ReadonlyMap<string, string>
  /** Query words that no document contains in any form. */
  readonly unknownWords: readonly string[]
  /** Rarity of a stem: 0 if every document has it, highest if no accepted one has. Valid until the next search. */
  rarityOf(stem: string | number): number
}

export interface LexicalOptions {
  readonly limit: number
  /** False hides a slot as if it were empty. Called only for slots that would be in the answer. */
  readonly accept: (slot: number) => boolean
  /** Slots of documents that do not count in the scores of others, such as how rare a word is; default none. */
  readonly uncounted?: readonly number[]
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
const VERSION = 2
const OWN_SECTIONS = 5
const SLOTS_CAP = 1 << 24
const WORDS_CAP = 1 << 23
const ROW_CAP = 4096
/** Weighted counts are stored in tenths. */
const COUNT_SCALE = 10
/** With fewer words, removing unused ones is not worth the work. */
const FEW_WORDS = 4096
/** With fewer obsolete row entries, packing the rows before the next search is not worth the work. */
const FEW_OBSOLETE = 1 << 16
/** Row entry: word << 9 | of the name << 8 | count. Words of the name come first. */
const NAME_BIT = 1 << 8
const WORD_SHIFT = 9

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
  /** Per word: number of its stem plus 1; 0 for an entry that is only a stem. */
  let stems = int32Of(saved?.[0] ?? new Uint8Array())
  /** Per slot: number of words plus 1; 0 for an empty slot. */
  let rowLengths = uint32Of(saved?.[1] ?? new Uint8Array())
  let rowStarts = new Uint32Array(rowLengths.length)
  let rows = uint32Of(saved?.[2] ?? new Uint8Array())
  let postings: Postings = {
    starts: uint32Of(saved?.[3] ?? new Uint8Array(4)),
    entries: uint32Of(saved?.[4] ?? new Uint8Array()),
  }
  /** False if `postings` is older than the rows. */
  let isInverted = true
  /** True if anything that `refresh` computes is out of date. */
  let isStale = true
  let refreshCount = 0
  let generation = 0
  let rowsUsed = 0
  /** Entries in `rows` of documents that were replaced or removed. */
  let obsoleteEntries = 0
  let size = 0
  /** Highest slot ever used plus one. */
  let slots = rowLengths.length
  for (const [slot, length] of rowLengths.entries()) {
    if (length === 0) continue
    size++
    rowStarts[slot] = rowsUsed
    rowsUsed += length - 1
  }
  if (
    rowsUsed !== rows.length ||
    stems.length !== dictionary.size ||
    postings.starts.length !== dictionary.size + 1 ||
    postings.starts[dictionary.size] !== postings.entries.length
  )
    throw new Error('the index is damaged')

  // Computed from the rows by `refresh`. Per stem: its first word plus 1, and in how many documents its words are. Per word: the
  // next word of the same stem plus 1.
  let firstWords = new Int32Array()
  let nextWords = new Int32Array()
  let stemDocuments = new Uint32Array()
  /** Per slot: the sum of its counts. */
  let lengths = new Float32Array()
  let totalLength = 0
  // What depends on the documents that count. Per slot: 1 for an uncounted one. Per stem: in how many documents that count its
  // words are, plus 1; 0 if not computed yet.
  let uncounted: readonly number[] = []
  let uncountedFlags = new Uint8Array()
  let countedByStem = new Uint32Array()
  let countedSize = 0
  /** The average length that `norms` was computed for. */
  let averageLength = Number.NaN
  // Reused between queries to avoid allocations.
  let norms = new Float32Array()
  let scores = new Float32Array()
  let counts = new Uint16Array()
  let gathered = new Uint32Array()
  let gatheredCount = 0
  /** Per stem: 1 if the query contains it. */
  let queryStemFlags = new Uint8Array()
  let plan: Plan = { terms: [], stems: [], unknown: [], corrections: new Map(), ideal: 1 }
  const groups = new Map<number, Group>()

  const corrector = createCorrector({
    version: () => refreshCount,
    *withInitialOf(word) {
      for (const [text, id] of dictionary.withInitialOf(word)) if (isUsed(id)) yield text
    },
  })

  const isUsed = (word: number): boolean => (postings.starts[word + 1] as number) > (postings.starts[word] as number)

  /** Number of documents with a word. This and the next functions are about the documents that count. */
  function documentsOf(word: number): number {
    if (word < 0) return 0
    const { starts, entries } = postings
    const [from, end] = [starts[word] as number, starts[word + 1] as number]
    let documents = end - from
    if (uncounted.length > 0)
      for (let at = from; at < end; at++) documents -= uncountedFlags[(entries[at] as number) >>> SLOT_SHIFT] as number
    return documents
  }

  /** Number of documents with any of these words. */
  function countDocuments(words: readonly number[]): number {
    gather(words)
    let documents = gatheredCount
    for (let at = 0; at < gatheredCount; at++) {
      const slot = gathered[at] as number
      counts[slot] = 0
      documents -= uncountedFlags[slot] as number
    }
    return documents
  }

  function documentsOfStem(stem: number): number {
    if (uncounted.length === 0) return stemDocuments[stem] as number
    if (countedByStem[stem] === 0) countedByStem[stem] = countDocuments(wordsOfStem(stem)) + 1
    return (countedByStem[stem] as number) - 1
  }

  function rarity(documents: number): number {
    return Math.log(1 + (countedSize - documents + 0.5) / (documents + 0.5))
  }

  function setUncounted(next: readonly number[]): void {
    if (uncounted.length + next.length > 0) groups.clear()
    for (const slot of uncounted) uncountedFlags[slot] = 0
    uncounted = next.filter((slot) => rowLengths[slot])
    countedByStem = withRoom(countedByStem, dictionary.size)
    if (uncounted.length > 0) countedByStem.fill(0)
    countedSize = size - uncounted.length
    let length = totalLength
    for (const slot of uncounted) {
      uncountedFlags[slot] = 1
      length -= lengths[slot] as number
    }
    setAverageLength(length / Math.max(1, countedSize))
  }

  function setAverageLength(average: number): void {
    if (average === averageLength) return
    averageLength = average
    const { saturation, lengthNorm } = RANKING
    for (let slot = 0; slot < slots; slot++)
      norms[slot] = saturation * COUNT_SCALE * (1 - lengthNorm + (lengthNorm * (lengths[slot] as number)) / average)
  }

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

  function set(slot: number, document: SearchDocument): void {
    if (!Number.isInteger(slot) || slot < 0 || slot >= SLOTS_CAP) throw new RangeError(`no slot ${slot}`)
    clear(slot)
    rowStarts = withRoom(rowStarts, slot + 1)
    rowLengths = withRoom(rowLengths, slot + 1)
    slots = Math.max(slots, slot + 1)
    const row: number[] = []
    const otherEntries: number[] = []
    const nameStems: number[] = []
    for (const [text, { weight, ofName }] of documentWords(document)) {
      if (row.length + otherEntries.length >= ROW_CAP || dictionary.size >= WORDS_CAP - 2) break
      const count = Math.min(COUNT_MASK, Math.max(1, Math.round(weight * COUNT_SCALE)))
      const word = addWord(text)
      const stem = stems[word] as number
      // Of several forms of one word in a name, only the first counts as part of the name.
      if (ofName && !nameStems.includes(stem)) {
        nameStems.push(stem)
        row.push(((word << WORD_SHIFT) | NAME_BIT | count) >>> 0)
      } else otherEntries.push(((word << WORD_SHIFT) | count) >>> 0)
    }
    for (const entry of otherEntries) row.push(entry)
    rows = withRoom(rows, rowsUsed + row.length)
    rows.set(row, rowsUsed)
    rowStarts[slot] = rowsUsed
    rowLengths[slot] = row.length + 1
    rowsUsed += row.length
    size++
    names.add(slot, document)
    setStale()
    if (obsoleteEntries > FEW_OBSOLETE && obsoleteEntries * 2 > rowsUsed) refresh()
  }

  function clear(slot: number): void {
    if (!rowLengths[slot]) return
    names.remove(slot)
    obsoleteEntries += (rowLengths[slot] as number) - 1
    rowLengths[slot] = 0
    size--
    setStale()
  }

  function setStale(): void {
    isInverted = false
    isStale = true
  }

  function visitRow(slot: number, onWord: (word: number, count: number) => void): void {
    const start = rowStarts[slot] as number
    const end = start + (rowLengths[slot] as number) - 1
    for (let at = start; at < end; at++) onWord((rows[at] as number) >>> WORD_SHIFT, (rows[at] as number) & COUNT_MASK)
  }

  /** Makes all changes since the last search searchable. */
  function refresh(): void {
    if (!isStale) return
    isStale = false
    refreshCount++
    groups.clear()
    const usedSlots: number[] = []
    for (let slot = 0; slot < slots; slot++) if (rowLengths[slot] !== 0) usedSlots.push(slot)
    if (!isInverted) {
      packRows(usedSlots)
      postings = invert(dictionary.size, usedSlots, visitRow)
    }
    linkStems(usedSlots)
    if (dictionary.size > FEW_WORDS && countUsedWords() * 2 < dictionary.size) {
      renumberWords()
      postings = invert(dictionary.size, usedSlots, visitRow)
      linkStems(usedSlots)
    }
    isInverted = true
    if (scores.length < slots) {
      const room = rowLengths.length
      scores = new Float32Array(room)
      counts = new Uint16Array(room)
      gathered = new Uint32Array(room)
      norms = new Float32Array(room)
      lengths = new Float32Array(room)
      uncountedFlags = new Uint8Array(room)
    }
    measureLengths(usedSlots)
  }

  function packRows(usedSlots: readonly number[]): void {
    let used = 0
    for (const slot of usedSlots) used += (rowLengths[slot] as number) - 1
    const packed = new Uint32Array(used)
    used = 0
    for (const slot of usedSlots) {
      const start = rowStarts[slot] as number
      const length = (rowLengths[slot] as number) - 1
      packed.set(rows.subarray(start, start + length), used)
      rowStarts[slot] = used
      used += length
    }
    rows = packed
    rowsUsed = used
    obsoleteEntries = 0
  }

  function countUsedWords(): number {
    let used = 0
    for (let word = 0; word < dictionary.size; word++) if (isUsed(word) || firstWords[word] !== 0) used++
    return used
  }

  /** Removes words that no document contains any more. */
  function renumberWords(): void {
    generation++
    const previous = dictionary
    const renumbered = new Int32Array(previous.size)
    dictionary = createDictionary()
    stems = new Int32Array()
    for (const [at, entry] of rows.entries()) {
      const old = entry >>> WORD_SHIFT
      if (renumbered[old] === 0) renumbered[old] = addWord(previous.wordOf(old)) + 1
      rows[at] = ((((renumbered[old] as number) - 1) << WORD_SHIFT) | (entry & (NAME_BIT | COUNT_MASK))) >>> 0
    }
  }

  function linkStems(usedSlots: readonly number[]): void {
    firstWords = new Int32Array(dictionary.size)
    nextWords = new Int32Array(dictionary.size)
    stemDocuments = new Uint32Array(dictionary.size)
    for (let word = 0; word < dictionary.size; word++) {
      if (!isUsed(word)) continue
      const stem = (stems[word] as number) - 1
      nextWords[word] = firstWords[stem] as number
      firstWords[stem] = word + 1
    }
    /** Per stem: the last slot it was counted for, plus 1. */
    const counted = new Uint32Array(dictionary.size)
    for (const slot of usedSlots)
      visitRow(slot, (word) => {
        const stem = (stems[word] as number) - 1
        if (counted[stem] === slot + 1) return
        counted[stem] = slot + 1
        stemDocuments[stem] = (stemDocuments[stem] as number) + 1
      })
  }

  function measureLengths(usedSlots: readonly number[]): void {
    totalLength = 0
    averageLength = Number.NaN
    for (const slot of usedSlots) {
      let length = 0
      visitRow(slot, (_word, count) => {
        length += count
      })
      lengths[slot] = length
      totalLength += length
    }
  }

  function wordsOfStem(stem: number): number[] {
    const words: number[] = []
    for (let word = firstWords[stem] as number; word > 0; word = nextWords[word - 1] as number) words.push(word - 1)
    return words
  }

  /** The words of a synonym group that occur in documents, and how many documents contain any of them. */
  function groupOf(group: number): Group {
    const cached = groups.get(group)
    if (cached) return cached
    const members: number[] = []
    for (const text of synonymGroups().stemsOf[group] ?? []) {
      const stem = dictionary.find(text)
      if (stem >= 0) members.push(...wordsOfStem(stem))
    }
    const result = { words: members, documents: countDocuments(members) }
    groups.set(group, result)
    return result
  }

  /**
   * True if a visible document contains any of these words. Words that only hidden documents contain count as
   * unknown.
   */
  function isVisibleWord(words: readonly number[], accept: (slot: number) => boolean): boolean {
    const { starts, entries } = postings
    for (const word of words) {
      const end = starts[word + 1] ?? 0
      for (let at = starts[word] ?? 0; at < end; at++) if (accept((entries[at] as number) >>> SLOT_SHIFT)) return true
    }
    return false
  }

  function planFor(queryWords: readonly QueryWord[], accept: (slot: number) => boolean): Plan {
    const terms = new Map<string, Term>()
    const queryStems: number[] = []
    const unknown: string[] = []
    const corrections = new Map<string, string>()
    let ideal = 0
    const faint = (RANKING.faint * RANKING.faintDocuments + countedSize) / (RANKING.faintDocuments + countedSize)
    for (const word of queryWords) {
      let isFound = false
      const weight = word.faint ? faint : 1
      const addTerm = (key: string, termWords: readonly number[], boost: number, documents: number): void => {
        if (documents === 0 || !isVisibleWord(termWords, accept)) return
        isFound = true
        const worth = boost * rarity(documents)
        if ((terms.get(key)?.worth ?? 0) < worth) terms.set(key, { words: termWords, source: word.word, worth })
      }
      const addWordTerms = (form: WordTerms, factor: number): void => {
        const literal = dictionary.find(form.word)
        addTerm(`w${literal}`, [literal], TERM_WEIGHTS.word * factor, documentsOf(literal))
        const stem = dictionary.find(form.stem)
        if (stem >= 0) addTerm(`s${stem}`, wordsOfStem(stem), TERM_WEIGHTS.stem * factor, documentsOfStem(stem))
        if (form.group === undefined) return
        const group = groupOf(form.group)
        addTerm(`g${form.group}`, group.words, TERM_WEIGHTS.synonym * factor, group.documents)
      }
      addWordTerms(word, weight)
      for (const part of word.parts) addWordTerms(part, PART_WEIGHT * weight)
      if (!isFound && unknown.length < RANKING.maxRespelt) {
        const swapped = undoSwap(word.word, (text) => isVisibleWord([dictionary.find(text)], accept))
        const pieces = swapped
          ? [swapped]
          : splitJoined(word.word, (text) => {
              const piece = dictionary.find(text)
              return isVisibleWord([piece], accept) ? documentsOf(piece) : 0
            })
        for (const piece of pieces ?? []) addWordTerms(termsOf(piece), RANKING.respelt)
        if (pieces) corrections.set(word.word, pieces.join(' '))
      }
      if (!isFound) unknown.push(word.word)
      for (const { stem } of word.parts) queryStems.push(dictionary.find(stem))
      const stem = dictionary.find(word.stem)
      queryStems.push(stem)
      const literal = stem < 0 || !isVisibleWord(wordsOfStem(stem), accept) ? 0 : documentsOfStem(stem)
      const documents = literal === 0 && isFound && word.group !== undefined ? groupOf(word.group).documents : literal
      // A synonym alone, or no match, is not a full match, because the word could have occurred literally.
      if (literal === 0) ideal += weight * rarity(documents) * (TERM_WEIGHTS.word + TERM_WEIGHTS.stem)
    }
    const bestTerms = [...terms.values()].sort((a, b) => b.worth - a.worth).slice(0, RANKING.maxTerms)
    for (const { worth } of bestTerms) ideal += worth
    return {
      terms: bestTerms,
      stems: queryStems.filter((stem) => stem >= 0),
      unknown,
      corrections,
      ideal,
    }
  }

  /** Adds a term's share of `ideal` to the scores of all documents that contain it. */
  function score({ words, worth }: Term, ideal: number): void {
    const weight = worth / ideal
    if (words.length === 1) {
      scoreWord(words[0] as number, weight)
      return
    }
    gather(words)
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

  function scoreWord(word: number, weight: number): void {
    const { starts, entries } = postings
    // Local copies, because reading closure variables in this loop is slower.
    const into = scores
    const lengths = norms
    const end = starts[word + 1] ?? 0
    for (let at = starts[word] ?? 0; at < end; at++) {
      const entry = entries[at] as number
      const count = entry & COUNT_MASK
      const slot = entry >>> SLOT_SHIFT
      into[slot] = (into[slot] as number) + (weight * count) / (count + (lengths[slot] as number))
    }
  }

  /** Sums the counts of several words into `counts` and collects their slots in `gathered`. */
  function gather(words: readonly number[]): void {
    const { starts, entries } = postings
    const sums = counts
    const into = gathered
    let slotCount = 0
    for (const word of words) {
      const end = starts[word + 1] ?? 0
      for (let at = starts[word] ?? 0; at < end; at++) {
        const entry = entries[at] as number
        const slot = entry >>> SLOT_SHIFT
        const previousCount = sums[slot] as number
        if (previousCount === 0) into[slotCount++] = slot
        sums[slot] = previousCount + (entry & COUNT_MASK)
      }
    }
    gatheredCount = slotCount
  }

  /** Share of the tool's own name that the query covers, weighted by rarity, 0 to 1. */
  function coverageOf(slot: number): number {
    const entries = rows
    const table = stems
    const flags = queryStemFlags
    const start = rowStarts[slot] ?? 0
    const end = start + (rowLengths[slot] ?? 1) - 1
    let any = 0
    let ofName = start
    for (; ofName < end; ofName++) {
      const entry = entries[ofName] as number
      if ((entry & NAME_BIT) === 0) break
      any |= flags[(table[entry >>> WORD_SHIFT] as number) - 1] as number
    }
    if (any === 0) return 0
    let covered = 0
    let all = 0
    for (let at = start; at < ofName; at++) {
      const stem = (table[(entries[at] as number) >>> WORD_SHIFT] as number) - 1
      const worth = rarity(documentsOfStem(stem))
      all += worth
      if (flags[stem] === 1) covered += worth
    }
    return covered / all
  }

  function boostedScoreOf(slot: number): number {
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
      const boostedScore = boostedScoreOf(slot)
      if (!best.accepts(slot, boostedScore) || !accept(slot)) continue
      best.add(slot, boostedScore)
      least = leastFor(best)
    }
    return best.list().map((hit) => ({ ...hit, exactName: false }))
  }

  function leastFor(best: TopK): number {
    return Math.max(0, best.least / (1 + RANKING.nameCoverage) - ROUNDING)
  }

  /** Terms for words that no document contains, treated as prefixes or misspellings of known words. */
  function createGuesses({ unknown, corrections }: Plan, accept: (slot: number) => boolean): Term[] {
    if (unknown.length === 0 || unknown.length > RANKING.maxGuessedWords) return []
    return unknown.flatMap((word) =>
      corrector
        .nearest(word, RANKING.guessesPerWord, (text) => isVisibleWord([dictionary.find(text)], accept))
        .map(({ word: text, closeness }) => {
          const guess = dictionary.find(text)
          if (!corrections.has(word)) corrections.set(word, text)
          return { words: [guess], source: text, worth: closeness * rarity(documentsOf(guess)) }
        }),
    )
  }

  function search(query: string, { limit, accept, uncounted: next = [] }: LexicalOptions): LexicalMatches {
    scores.fill(0)
    refresh()
    setUncounted(next)
    queryStemFlags = withRoom(queryStemFlags, dictionary.size)
    const queryWords = size > 0 ? parseQuery(query) : []
    for (const stem of plan.stems) queryStemFlags[stem] = 0
    plan = planFor(queryWords, accept)
    for (const stem of plan.stems) queryStemFlags[stem] = 1
    for (const term of plan.terms) score(term, plan.ideal)
    const maxHits = Math.min(size, Math.max(0, Math.floor(limit) || 0))
    const namedSlots = maxHits > 0 ? names.match(query, accept) : []
    let hits = rank(maxHits, accept)
    let usedTerms = plan.terms
    if (namedSlots.length === 0 && (hits[0]?.score ?? 0) < RANKING.poor) {
      const guessTerms = createGuesses(plan, accept)
      for (const term of guessTerms) score(term, plan.ideal)
      if (guessTerms.length > 0) hits = rank(maxHits, accept)
      usedTerms = [...usedTerms, ...guessTerms]
    }
    if (namedSlots.length === 0 && (hits[0]?.score ?? 0) < RANKING.floor) hits = []
    const exactHits = namedSlots.map((slot): LexicalHit => ({ slot, score: 1, exactName: true }))
    return {
      hits: [...exactHits, ...hits.filter(({ slot }) => !namedSlots.includes(slot))].slice(
        0,
        Math.max(maxHits, exactHits.length),
      ),
      scoreOf: (slot) => (namedSlots.includes(slot) ? 1 : rowLengths[slot] ? boostedScoreOf(slot) : 0),
      termsOf: (slot) => findMatchedWords(slot, queryWords, usedTerms),
      corrections: plan.corrections,
      unknownWords: plan.unknown,
      rarityOf(stemOrText) {
        const stem = typeof stemOrText === 'number' ? stemOrText : dictionary.find(stemOrText)
        const isVisible = stem >= 0 && isVisibleWord(wordsOfStem(stem), accept)
        return rarity(isVisible ? documentsOfStem(stem) : 0)
      },
    }
  }

  function findMatchedWords(slot: number, queryWords: readonly QueryWord[], usedTerms: readonly Term[]): string[] {
    const slotWords = new Set<number>()
    if (rowLengths[slot]) visitRow(slot, (word) => slotWords.add(word))
    const matched = new Set<string>()
    for (const { words, source } of usedTerms) if (words.some((word) => slotWords.has(word))) matched.add(source)
    const inOrder = queryWords.map(({ word }) => word).filter((word) => matched.has(word))
    return [...new Set([...inOrder, ...matched])]
  }

  function save(): Uint8Array {
    refresh()
    return packSections(MAGIC, VERSION, [
      stems.subarray(0, dictionary.size),
      rowLengths.subarray(0, slots),
      rows,
      postings.starts,
      postings.entries,
      ...dictionary.sections(),
      ...names.sections(),
    ])
  }

  // Nobody waits for a load, but somebody waits for the first search.
  if (saved) refresh()
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
      const table = stems
      const start = rowStarts[slot] ?? 0
      const count = Math.min(most, Math.max(1, rowLengths[slot] ?? 1) - 1)
      for (let index = 0; index < count; index++) {
        const entry = entries[start + index] as number
        const stem = (table[entry >>> WORD_SHIFT] as number) - 1
        into[at + index] = (stem << 1) | ((entry & NAME_BIT) === 0 ? 0 : 1)
      }
      return count
    },
    stemText: (stem) => dictionary.wordOf(stem),
    get generation() {
      return generation
    },
  }
}
