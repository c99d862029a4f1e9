import { createBm25 } from './bm25.ts'
import { createCorrector } from './corrector.ts'
import { DICTIONARY_SECTIONS } from './dictionary.ts'
import { createNameTable, NAME_SECTIONS } from './name-table.ts'
import { packSections, uint32Of, unpackSections, withRoom } from './packed-sections.ts'
import type { Postings } from './postings.ts'
import { planQuery, type QueryPlan, type Term } from './query-plan.ts'
import type { SearchDocument } from './search-document.ts'
import { parseQuery, type QueryWord } from './terms.ts'
import { createTopK, type TopK } from './top-k.ts'
import { createWordRows, ROW_SECTIONS } from './word-rows.ts'

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

/** Keyword ranking of documents in numbered slots, by BM25 and by how much of the name the query covers. */
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
  /** Maximum bonus for covering the tool's own name, weighted by rarity. */
  nameCoverage: 0.15,
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
/** Where the words and the names begin in the saved sections. Rows and postings come before them. */
const WORDS_AT = ROW_SECTIONS + 2
const NAMES_AT = WORDS_AT + DICTIONARY_SECTIONS

export const createLexicalIndex = (): LexicalIndex => openLexicalIndex()

/**
 * Loads an index that `save` wrote. The buffer is used directly: changed slots are written to it.
 * @throws if it was made by another version, truncated or damaged
 */
export function loadLexicalIndex(bytes: Uint8Array): LexicalIndex {
  return openLexicalIndex(unpackSections(MAGIC, VERSION, bytes, NAMES_AT + NAME_SECTIONS))
}

function openLexicalIndex(saved?: readonly Uint8Array[]): LexicalIndex {
  const rows = createWordRows(saved?.slice(0, ROW_SECTIONS), saved?.slice(WORDS_AT, NAMES_AT))
  const names = createNameTable(saved?.slice(NAMES_AT))
  const bm25 = createBm25(rows, readPostings(saved?.slice(ROW_SECTIONS, WORDS_AT), rows.wordCount))
  /** `loaded`: the rows are those of the saved postings, but nothing is computed from them yet. */
  let state: 'current' | 'loaded' | 'changed' = 'loaded'
  let refreshCount = 0
  /** Per stem: 1 if the query contains it. */
  let queryStemFlags = new Uint8Array()
  let plan: QueryPlan = { terms: [], stems: [], unknown: [], corrections: new Map(), ideal: 1 }

  const corrector = createCorrector({
    version: () => refreshCount,
    *withInitialOf(word) {
      for (const [text, id] of rows.withInitialOf(word)) if (bm25.isUsed(id)) yield text
    },
  })

  /** Makes all changes since the last search searchable. */
  function refresh(): void {
    if (state === 'current') return
    refreshCount++
    if (state === 'changed') rows.pack()
    bm25.update(state === 'loaded')
    state = 'current'
  }

  function clear(slot: number): void {
    if (!rows.has(slot)) return
    names.remove(slot)
    rows.clear(slot)
    state = 'changed'
  }

  function boostedScoreOf(slot: number, score: number): number {
    const coverage = rows.nameCoverageOf(slot, queryStemFlags, bm25.rarityOfStem)
    return Math.min(RANKING.highest, score * (1 + RANKING.nameCoverage * coverage))
  }

  function rank(limit: number, accept: (slot: number) => boolean): LexicalHit[] {
    const best = createTopK(limit)
    const { scores } = bm25
    const end = rows.slots
    let least = leastFor(best)
    for (let slot = 0; slot < end; slot++) {
      const score = scores[slot] as number
      if (score <= least) continue
      const boostedScore = boostedScoreOf(slot, score)
      if (!best.accepts(slot, boostedScore) || !accept(slot)) continue
      best.add(slot, boostedScore)
      least = leastFor(best)
    }
    return best.list().map((hit) => ({ ...hit, exactName: false }))
  }

  /** Terms for words that no document contains, treated as prefixes or misspellings of known words. */
  function createGuesses({ unknown, corrections }: QueryPlan, accept: (slot: number) => boolean): Term[] {
    if (unknown.length > RANKING.maxGuessedWords) return []
    const isVisible = (text: string): boolean => bm25.isVisible([rows.find(text)], accept)
    return unknown.flatMap((word) =>
      corrector.nearest(word, RANKING.guessesPerWord, isVisible).map(({ word: text, closeness }) => {
        const guess = rows.find(text)
        if (!corrections.has(word)) corrections.set(word, text)
        return {
          key: `w${guess}`,
          words: [guess],
          source: text,
          worth: closeness * bm25.rarity(bm25.documentsOf(guess)),
        }
      }),
    )
  }

  /** Adds each term's share of the ideal score to the documents that contain it. */
  function addScores(terms: readonly Term[]): void {
    for (const { words, worth } of terms) bm25.addScores(words, worth / plan.ideal)
  }

  function search(query: string, { limit, accept, uncounted = [] }: LexicalOptions): LexicalMatches {
    refresh()
    bm25.begin(uncounted)
    const queryWords = rows.size > 0 ? parseQuery(query) : []
    queryStemFlags = withRoom(queryStemFlags, rows.wordCount)
    for (const stem of plan.stems) queryStemFlags[stem] = 0
    plan = planQuery(queryWords, rows, bm25, accept)
    for (const stem of plan.stems) queryStemFlags[stem] = 1
    addScores(plan.terms)
    const maxHits = Math.min(rows.size, Math.max(0, Math.floor(limit) || 0))
    const namedSlots = maxHits > 0 ? names.match(query, accept) : []
    let hits = rank(maxHits, accept)
    let usedTerms = plan.terms
    const isBelow = (score: number): boolean => namedSlots.length === 0 && (hits[0]?.score ?? 0) < score
    if (isBelow(RANKING.poor)) {
      const guesses = createGuesses(plan, accept)
      addScores(guesses)
      if (guesses.length > 0) hits = rank(maxHits, accept)
      usedTerms = [...usedTerms, ...guesses]
    }
    if (isBelow(RANKING.floor)) hits = []
    const exactHits = namedSlots.map((slot): LexicalHit => ({ slot, score: 1, exactName: true }))
    const otherHits = hits.filter(({ slot }) => !namedSlots.includes(slot))
    return {
      hits: [...exactHits, ...otherHits].slice(0, Math.max(maxHits, exactHits.length)),
      scoreOf(slot) {
        if (namedSlots.includes(slot)) return 1
        return rows.has(slot) ? boostedScoreOf(slot, bm25.scores[slot] as number) : 0
      },
      termsOf: (slot) => findMatchedWords(slot, queryWords, usedTerms),
      corrections: plan.corrections,
      unknownWords: plan.unknown,
      rarityOf(stemOrText) {
        const stem = typeof stemOrText === 'number' ? stemOrText : rows.find(stemOrText)
        const isVisible = stem >= 0 && bm25.isVisible(bm25.wordsOfStem(stem), accept)
        return isVisible ? bm25.rarityOfStem(stem) : bm25.rarity(0)
      },
    }
  }

  function findMatchedWords(slot: number, queryWords: readonly QueryWord[], usedTerms: readonly Term[]): string[] {
    const slotWords = new Set<number>()
    rows.visit(slot, (word) => slotWords.add(word))
    const matched = new Set<string>()
    for (const { words, source } of usedTerms) if (words.some((word) => slotWords.has(word))) matched.add(source)
    const inOrder = queryWords.map(({ word }) => word).filter((word) => matched.has(word))
    return [...new Set([...inOrder, ...matched])]
  }

  // Nobody waits for a load, but somebody waits for the first search.
  if (saved) refresh()
  return {
    get size() {
      return rows.size
    },
    set(slot, document) {
      clear(slot)
      rows.set(slot, document)
      names.add(slot, document)
      state = 'changed'
      if (rows.isSparse) refresh()
    },
    clear,
    search,
    save() {
      refresh()
      const { starts, entries } = bm25.postings
      return packSections(MAGIC, VERSION, [
        ...rows.sections(),
        starts,
        entries,
        ...rows.wordSections(),
        ...names.sections(),
      ])
    },
    copyStems: rows.copyStems,
    stemText: rows.wordOf,
    get generation() {
      return rows.generation
    },
  }
}

/** @throws Error if they do not have a list for each word */
function readPostings(saved: readonly Uint8Array[] | undefined, wordCount: number): Postings {
  const starts = uint32Of(saved?.[0] ?? new Uint8Array(4))
  const entries = uint32Of(saved?.[1] ?? new Uint8Array())
  if (starts.length !== wordCount + 1 || starts[wordCount] !== entries.length) throw new Error('the index is damaged')
  return { starts, entries }
}

/** A score that is not higher cannot be among the best, even with the bonus for the name. */
function leastFor(best: TopK): number {
  return Math.max(0, best.least / (1 + RANKING.nameCoverage) - ROUNDING)
}
