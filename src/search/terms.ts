import type { SearchDocument } from './document.ts'
import { synonymTerms } from './synonyms.ts'
import { STOP_WORDS, stemOf, type Word, wordsOf } from './tokenize.ts'

/**
 * What a match is worth by kind. A word that is its own literal match earns word, stem and synonym together; another form
 * of it stem and synonym; a synonym alone the synonym weight: so literal > inflected > synonym. Measured best, with the
 * synonym weight fixed at 0.75.
 */
export const TERM_WEIGHTS = { word: 0.75, stem: 1.5, synonym: 0.75 } as const
/** A piece of a camelCase or digit-joined query word counts half: the whole word says more. */
const PART_WEIGHT = 0.5
/** Repeating a word in one field pays at most this often. */
const REPEATS_CAP = 3
const QUERY_CHARACTERS_CAP = 2048
const REMEMBERED_WORDS = 50_000

/** The index terms of one word: itself, its stem (`=stem`) and its synonym group (`#7`) where it has one. */
export interface WordTerms {
  readonly word: string
  readonly stem: string
  readonly synonym: string | undefined
}

/** One content word of a query, with the pieces it falls into. */
export interface QueryWord extends WordTerms {
  readonly parts: readonly WordTerms[]
}

export interface DocumentTerms {
  /** Term → weighted count over all fields. */
  readonly weights: ReadonlyMap<string, number>
  /** Distinct stem terms of the tool's own name and title. */
  readonly nameStems: readonly string[]
}

/** Words to index terms, for documents and queries alike. Keeps the terms of words already seen (at most 50,000). */
export function createVocabulary() {
  const groups = synonymTerms(stemOf)
  const seen = new Map<string, WordTerms>()

  function termsOf(word: string): WordTerms {
    const known = seen.get(word)
    if (known) return known
    const stem = stemOf(word)
    const terms = { word, stem: `=${stem}`, synonym: groups.get(stem) }
    if (seen.size >= REMEMBERED_WORDS) seen.clear()
    seen.set(word, terms)
    return terms
  }

  function documentTerms(document: SearchDocument): DocumentTerms {
    const weights = new Map<string, number>()
    const nameStems = new Set<string>()
    for (const field of document.fields) {
      const counts = new Map<string, number>()
      const count = (term: string): void => {
        counts.set(term, (counts.get(term) ?? 0) + 1)
      }
      const countWord = (text: string, ofName: boolean): void => {
        const terms = termsOf(text)
        count(terms.word)
        count(terms.stem)
        if (terms.synonym) count(terms.synonym)
        if (ofName) nameStems.add(terms.stem)
      }
      const isName = field.name === 'name'
      for (const word of wordsOf(field.text)) {
        if (!isName && STOP_WORDS.has(word.text)) continue
        countWord(word.text, isName && word.parts.length === 0)
        for (const part of word.parts) countWord(part, isName)
      }
      for (const [term, times] of counts) {
        weights.set(term, (weights.get(term) ?? 0) + Math.min(times, REPEATS_CAP) * field.weight)
      }
    }
    return { weights, nameStems: [...nameStems] }
  }

  /** The content words of a query (its first 2,048 characters), each once. All words when all are stop words. */
  function queryWords(query: string): QueryWord[] {
    const words = wordsOf(query.slice(0, QUERY_CHARACTERS_CAP))
    const content = words.filter((word) => !STOP_WORDS.has(word.text))
    const distinct = new Map<string, Word>()
    for (const word of content.length > 0 ? content : words) if (!distinct.has(word.text)) distinct.set(word.text, word)
    return [...distinct.values()].map((word) => ({
      ...termsOf(word.text),
      parts: word.parts.filter((part) => !STOP_WORDS.has(part)).map(termsOf),
    }))
  }

  return { documentTerms, queryWords, termsOf }
}

/** Calls `add` with every index term of a query word and what it is worth. */
export function weighQueryWord(word: QueryWord, add: (term: string, weight: number) => void): void {
  weighWord(word, 1, add)
  for (const part of word.parts) weighWord(part, PART_WEIGHT, add)
}

/** The same for one word without pieces, all weights scaled by `factor`. */
export function weighWord(terms: WordTerms, factor: number, add: (term: string, weight: number) => void): void {
  add(terms.word, TERM_WEIGHTS.word * factor)
  add(terms.stem, TERM_WEIGHTS.stem * factor)
  if (terms.synonym) add(terms.synonym, TERM_WEIGHTS.synonym * factor)
}

/** The word with two neighbouring letters swapped that `known` accepts: the commonest typo, and the cheapest to undo. */
export function unswap(word: string, known: (word: string) => boolean): string | undefined {
  if (word.length < 4) return undefined
  for (let i = 1; i < word.length; i++) {
    if (word[i] === word[i - 1]) continue
    const swapped = `${word.slice(0, i - 1)}${word[i]}${word[i - 1]}${word.slice(i + 1)}`
    if (known(swapped)) return swapped
  }
  return undefined
}
