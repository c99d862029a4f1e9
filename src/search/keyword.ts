import MiniSearch from 'minisearch'
import type { SearchDocument } from './document.ts'
import { createNameTable } from './names.ts'
import { createVocabulary, type QueryWord, TERM_WEIGHTS, unswap, weighQueryWord, weighWord } from './terms.ts'

/** One match. `score` is 0 to 1: the share of the best score the query could earn; 1 only for an exact name. */
export interface KeywordHit {
  readonly id: string
  readonly score: number
  /** The query's words that matched, as typed but lower case and without accents. */
  readonly terms: readonly string[]
  readonly exactName: boolean
}

export interface KeywordSearchOptions {
  readonly limit: number
  /** False hides a tool as if it were not indexed. Asked only about tools that would make the answer. */
  readonly filter?: (id: string) => boolean
}

/** Keyword ranking of tools: one BM25 saturation over weighted fields, prefixes and typos only when that finds little. */
export interface KeywordIndex {
  readonly size: number
  /** Adds a document, replacing the one of the same id. */
  add(document: SearchDocument): void
  remove(id: string): void
  search(query: string, options: KeywordSearchOptions): KeywordHit[]
}

/** Chosen on the labelled sets; see `pegboard eval`. */
const RANKING = {
  saturation: 1.1,
  lengthNorm: 0.45,
  /** Share of the tool's own name the query covers, weighed by rarity, adds up to this much. */
  nameCoverage: 0.25,
  /** Only the most telling terms of a long query are looked up. */
  maxTerms: 20,
  /** Below this best score, unknown words are tried as prefixes and typos. */
  poor: 0.5,
  maxGuessedWords: 4,
  /** A word found by swapping two letters back is worth this share of one typed right. */
  swapped: 0.8,
  /** Below this score for the best hit, nothing is relevant. */
  floor: 0.02,
  highest: 0.99,
} as const
/** MiniSearch counts whole occurrences; weighted counts are kept in thirds. */
const COUNT_SCALE = 3

interface Entry {
  readonly document: SearchDocument
  readonly terms: readonly string[]
  readonly nameStems: readonly string[]
}

interface Plan {
  /** Term → what a match is worth. */
  readonly boosts: ReadonlyMap<string, number>
  /** Term → the query word it came from. */
  readonly sources: ReadonlyMap<string, string>
  readonly stems: ReadonlySet<string>
  /** Words of the query that no document has in any form. */
  readonly unknown: ReadonlySet<string>
  /** The raw score of a document saying everything, endlessly often. */
  readonly ideal: number
}

export function createKeywordIndex(): KeywordIndex {
  const vocabulary = createVocabulary()
  const names = createNameTable()
  const entries = new Map<string, Entry>()
  const documentCounts = new Map<string, number>()
  const index = new MiniSearch<{ id: string; counts: string }>({
    fields: ['counts'],
    tokenize: (counts) => counts.split(' '),
    processTerm: repeatTerm,
  })

  function rarity(term: string): number {
    const having = documentCounts.get(term) ?? 0
    return Math.log(1 + (entries.size - having + 0.5) / (having + 0.5))
  }

  function add(document: SearchDocument): void {
    remove(document.id)
    const { weights, nameStems } = vocabulary.documentTerms(document)
    const counts: string[] = []
    for (const [term, weight] of weights) {
      counts.push(`${term}:${Math.max(1, Math.round(weight * COUNT_SCALE))}`)
      documentCounts.set(term, (documentCounts.get(term) ?? 0) + 1)
    }
    index.add({ id: document.id, counts: counts.join(' ') })
    names.add(document)
    entries.set(document.id, { document, terms: [...weights.keys()], nameStems })
  }

  function remove(id: string): void {
    const entry = entries.get(id)
    if (!entry) return
    entries.delete(id)
    names.remove(entry.document)
    for (const term of entry.terms) {
      const left = (documentCounts.get(term) ?? 1) - 1
      if (left > 0) documentCounts.set(term, left)
      else documentCounts.delete(term)
    }
    index.discard(id)
  }

  function planFor(words: readonly QueryWord[]): Plan {
    const boosts = new Map<string, number>()
    const sources = new Map<string, string>()
    const stems = new Set<string>()
    const unknown = new Set<string>()
    let ideal = 0
    for (const word of words) {
      let known = false
      stems.add(word.stem)
      for (const part of word.parts) stems.add(part.stem)
      const want = (term: string, weight: number): void => {
        if (!documentCounts.has(term)) return
        known = true
        sources.set(term, sources.get(term) ?? word.word)
        boosts.set(term, Math.max(boosts.get(term) ?? 0, weight))
      }
      weighQueryWord(word, want)
      if (!known) {
        const swapped = unswap(word.word, (text) => documentCounts.has(text))
        if (swapped) weighWord(vocabulary.termsOf(swapped), RANKING.swapped, want)
      }
      if (!known) unknown.add(word.word)
      // What nobody says literally could still have been said: a synonym alone, or silence, is not a full match.
      if (!documentCounts.has(word.stem)) {
        const rare = known && word.synonym ? word.synonym : word.stem
        ideal += rarity(rare) * (TERM_WEIGHTS.word + TERM_WEIGHTS.stem)
      }
    }
    const ranked = [...boosts].map(([term, boost]) => ({ term, boost, worth: boost * rarity(term) }))
    ranked.sort((a, b) => b.worth - a.worth)
    const kept = ranked.slice(0, RANKING.maxTerms)
    for (const { worth } of kept) ideal += worth
    return { boosts: new Map(kept.map(({ term, boost }) => [term, boost])), sources, stems, unknown, ideal }
  }

  function nameCoverage(entry: Entry, stems: ReadonlySet<string>): number {
    if (!entry.nameStems.some((stem) => stems.has(stem))) return 0
    let covered = 0
    let all = 0
    for (const stem of entry.nameStems) {
      const worth = rarity(stem)
      all += worth
      if (stems.has(stem)) covered += worth
    }
    return covered / all
  }

  /** The best of the documents having any of the plan's terms; with `guess`, unknown words match prefixes and typos. */
  function rank(plan: Plan, guess: ReadonlySet<string>, options: KeywordSearchOptions): KeywordHit[] {
    const best: KeywordHit[] = []
    const guessedInitials = new Set([...guess].map((word) => word[0]))
    const perUnit = 1 / (plan.ideal * (RANKING.saturation * COUNT_SCALE + 1))
    index.search([...plan.boosts.keys(), ...guess].join(' '), {
      tokenize: (terms) => terms.split(' '),
      processTerm: (term) => term,
      boostTerm: (term) => plan.boosts.get(term) ?? 1,
      prefix: (term) => guess.has(term) && term.length >= 3,
      fuzzy: (term) => guess.has(term) && typosIn(term),
      // A guess keeps the first letter, and is a word, not a stem or a synonym group.
      ...(guess.size > 0 && {
        boostDocument: (_id: string, term: string) => (plan.boosts.has(term) || guessedInitials.has(term[0]) ? 1 : 0),
      }),
      bm25: { k: RANKING.saturation * COUNT_SCALE, b: RANKING.lengthNorm, d: 0 },
      // Every candidate passes here; keeping the few best ourselves spares sorting all of them.
      filter: ({ id, score, queryTerms }) => {
        const entry = entries.get(id)
        if (!entry) return false
        // MiniSearch multiplies by the number of matched terms, which favours long documents; undone here.
        const share = (score / (queryTerms.length || 1)) * perUnit
        const boosted = Math.min(RANKING.highest, share * (1 + RANKING.nameCoverage * nameCoverage(entry, plan.stems)))
        const last = best[best.length - 1]
        if (best.length >= options.limit && last && boosted <= last.score) return false
        if (options.filter && !options.filter(id)) return false
        const terms = [...new Set(queryTerms.map((term) => plan.sources.get(term) ?? term))]
        let at = best.length
        while (at > 0 && (best[at - 1]?.score ?? 0) < boosted) at--
        best.splice(at, 0, { id, score: boosted, terms, exactName: false })
        if (best.length > options.limit) best.pop()
        return false
      },
    })
    return best
  }

  function search(query: string, options: KeywordSearchOptions): KeywordHit[] {
    if (entries.size === 0 || options.limit < 1) return []
    const named = names.match(query, options.filter ?? (() => true))
    const words = vocabulary.queryWords(query)
    const plan = planFor(words)
    let hits = plan.boosts.size > 0 ? rank(plan, new Set(), options) : []
    const guessable = plan.unknown.size > 0 && plan.unknown.size <= RANKING.maxGuessedWords
    if (named.length === 0 && guessable && (hits[0]?.score ?? 0) < RANKING.poor)
      hits = rank(plan, plan.unknown, options)
    if (named.length === 0) return (hits[0]?.score ?? 0) < RANKING.floor ? [] : hits
    const exact = named.map((id): KeywordHit => ({ id, score: 1, terms: words.map((w) => w.word), exactName: true }))
    return [...exact, ...hits.filter(({ id }) => !named.includes(id))].slice(0, options.limit)
  }

  return {
    get size() {
      return entries.size
    },
    add,
    remove,
    search,
  }
}

/** `read:6` → `read` six times, the only way to tell MiniSearch a count. */
function repeatTerm(counted: string): string[] {
  const at = counted.lastIndexOf(':')
  return new Array<string>(Number(counted.slice(at + 1))).fill(counted.slice(0, at))
}

/** How many letters may be wrong: none in short words, where most guesses would be other words. */
function typosIn(term: string): number | false {
  if (term.length < 5) return false
  return term.length < 9 ? 1 : 2
}
