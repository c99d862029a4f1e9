import type { SearchDocument } from './search-document.ts'
import { synonymGroups } from './synonyms.ts'
import { isFaint, isStopWord, MAX_QUERY_CHARACTERS, stemOf, type Word, wordsOf } from './tokenize.ts'

/**
 * Weights of match kinds. A literal match earns all three weights, another form of the word earns stem and synonym, a
 * synonym earns only the synonym weight: literal > inflected > synonym.
 */
export const TERM_WEIGHTS = { word: 0.75, stem: 1.5, synonym: 0.75 } as const
/** A part of a camelCase or digit-joined query word counts half, because the whole word is more specific. */
export const PART_WEIGHT = 0.5
/** Repetitions of a word in one field count at most this often. */
const REPEATS_CAP = 3
/** Weight of a word from a module's synonym group in a document that contains another word of the group. */
const OWN_SYNONYM = 0.5
const GROUPS_CAP = 100
const GROUP_CAP = 24
const SHORTEST_PIECE = 3
const SHORTEST_JOINED = 7

/** A word as the index knows it: its text, its stem and its synonym group, if it has one. */
export interface WordTerms {
  readonly word: string
  readonly stem: string
  readonly group: number | undefined
}

/** A content word of a query, with its parts. */
export interface QueryWord extends WordTerms {
  /** True if the word says little about which tool is wanted. */
  readonly faint: boolean
  readonly parts: readonly WordTerms[]
}

export interface DocumentWord {
  /** Weighted count over all fields. */
  weight: number
  /** True if the tool's own name or title contains it. */
  ofName: boolean
  /** The field it was last seen in, and its count there. */
  field: number
  times: number
}

export function termsOf(word: string): WordTerms {
  const stem = stemOf(word)
  return { word, stem, group: synonymGroups().groupOf.get(stem) }
}

/** The distinct content words of a query (first 2,048 characters), or all words if all are stop words. */
export function parseQuery(query: string): QueryWord[] {
  const words = wordsOf(query.slice(0, MAX_QUERY_CHARACTERS))
  const content = words.filter((word) => !isStopWord(word.text))
  const distinct = new Map<string, Word>()
  for (const word of content.length > 0 ? content : words) if (!distinct.has(word.text)) distinct.set(word.text, word)
  return [...distinct.values()].map(({ text, parts }) => {
    const terms = termsOf(text)
    return { ...terms, faint: isFaint(terms.stem), parts: parts.filter((part) => !isStopWord(part)).map(termsOf) }
  })
}

/** The distinct words of a document, plus the words of each module synonym group it mentions, at reduced weight. */
export function documentWords(document: SearchDocument): Map<string, DocumentWord> {
  const words = new Map<string, DocumentWord>()
  document.fields.forEach(({ name, text, weight }, field) => {
    const isName = name === 'name'
    for (const word of wordsOf(text)) {
      if (!isName && isStopWord(word.text)) continue
      countWord(words, word.text, field, weight, isName && word.parts.length === 0)
      for (const part of word.parts) countWord(words, part, field, weight, isName)
    }
  })
  for (const group of document.synonyms?.slice(0, GROUPS_CAP) ?? []) addGroup(group, words)
  return words
}

function countWord(words: Map<string, DocumentWord>, text: string, field: number, weight: number, ofName: boolean) {
  const existing = words.get(text)
  if (!existing) {
    words.set(text, { weight, ofName, field, times: 1 })
    return
  }
  if (ofName) existing.ofName = true
  existing.times = existing.field === field ? existing.times + 1 : 1
  existing.field = field
  if (existing.times <= REPEATS_CAP) existing.weight += weight
}

/** A phrase of a group is added word by word, but only a single word triggers the group. */
function addGroup(group: readonly string[], words: Map<string, DocumentWord>): void {
  const members = new Set<string>()
  const triggers = new Set<string>()
  for (const entry of group.slice(0, GROUP_CAP)) {
    const entryWords = wordsOf(entry.slice(0, 100)).filter(({ text }) => !isStopWord(text))
    for (const { text } of entryWords) members.add(text)
    if (entryWords.length === 1 && entryWords[0]) triggers.add(stemOf(entryWords[0].text))
  }
  let maxWeight = 0
  for (const [text, { weight }] of words) if (triggers.has(stemOf(text))) maxWeight = Math.max(maxWeight, weight)
  if (maxWeight === 0) return
  for (const text of members) {
    if (!words.has(text)) words.set(text, { weight: maxWeight * OWN_SYNONYM, ofName: false, field: -1, times: 0 })
  }
}

/**
 * The word with two neighbouring letters swapped that `isWord` accepts. This is the most common typo and the cheapest
 * to correct.
 */
export function undoSwap(word: string, isWord: (word: string) => boolean): string | undefined {
  if (word.length < 4) return undefined
  for (let i = 1; i < word.length; i++) {
    if (word[i] === word[i - 1]) continue
    const swapped = `${word.slice(0, i - 1)}${word[i]}${word[i - 1]}${word.slice(i + 1)}`
    if (isWord(swapped)) return swapped
  }
  return undefined
}

/** Two known words written as one (`websearch`); prefers the more common pair. Undefined if there is none. */
export function splitJoined(
  word: string,
  documentsOf: (word: string) => number,
): readonly [string, string] | undefined {
  if (word.length < SHORTEST_JOINED) return undefined
  let best: readonly [string, string] | undefined
  let maxDocuments = 0
  for (let i = SHORTEST_PIECE; i <= word.length - SHORTEST_PIECE; i++) {
    const pieces = [word.slice(0, i), word.slice(i)] as const
    const documents = Math.min(documentsOf(pieces[0]), documentsOf(pieces[1]))
    if (documents > maxDocuments) {
      maxDocuments = documents
      best = pieces
    }
  }
  return best
}
