import type { SearchDocument } from './document.ts'
import { synonymGroups } from './synonyms.ts'
import { isFaint, isStopWord, stemOf, type Word, wordsOf } from './tokenize.ts'

/**
 * What a match is worth by kind. A word that is its own literal match earns word, stem and synonym together; another form
 * of it stem and synonym; a synonym alone the synonym weight: so literal > inflected > synonym.
 */
export const TERM_WEIGHTS = { word: 0.75, stem: 1.5, synonym: 0.75 } as const
/** A piece of a camelCase or digit-joined query word counts half: the whole word says more. */
export const PART_WEIGHT = 0.5
/** Repeating a word in one field pays at most this often. */
const REPEATS_CAP = 3
/** What a word of a module's own synonym group weighs in a document that has another word of the group. */
const OWN_SYNONYM = 0.5
const GROUPS_CAP = 100
const GROUP_CAP = 24
const SHORTEST_PIECE = 3
const SHORTEST_JOINED = 7
const QUERY_CHARACTERS_CAP = 2048
const REMEMBERED_WORDS = 50_000

/** One word as the index knows it: itself, its stem and the number of its synonym group where it has one. */
export interface WordTerms {
  readonly word: string
  readonly stem: string
  readonly group: number | undefined
}

/** One content word of a query, with the pieces it falls into. */
export interface QueryWord extends WordTerms {
  /** Whether it says little about which tool is wanted. */
  readonly faint: boolean
  readonly parts: readonly WordTerms[]
}

/** One word of a document. */
export interface DocumentWord {
  /** Its weighted count over all fields. */
  weight: number
  /** Whether the tool's own name or title has it. */
  ofName: boolean
  /** The last field it was seen in, and how often there. */
  field: number
  times: number
}

export type Vocabulary = ReturnType<typeof createVocabulary>

/** Texts to words, for documents and queries alike. Keeps the terms of words already seen (at most 50,000). */
export function createVocabulary() {
  const { groupOf, stemsOf } = synonymGroups(stemOf)
  const seen = new Map<string, WordTerms>()

  function termsOf(word: string): WordTerms {
    const known = seen.get(word)
    if (known) return known
    const stem = stemOf(word)
    const terms = { word, stem, group: groupOf.get(stem) }
    if (seen.size >= REMEMBERED_WORDS) seen.clear()
    seen.set(word, terms)
    return terms
  }

  /** The content words of a query (its first 2,048 characters), each once. All words when all are stop words. */
  function queryWords(query: string): QueryWord[] {
    const words = wordsOf(query.slice(0, QUERY_CHARACTERS_CAP))
    const content = words.filter((word) => !isStopWord(word.text))
    const distinct = new Map<string, Word>()
    for (const word of content.length > 0 ? content : words) if (!distinct.has(word.text)) distinct.set(word.text, word)
    return [...distinct.values()].map((word) => ({
      ...termsOf(word.text),
      faint: isFaint(termsOf(word.text).stem),
      parts: word.parts.filter((part) => !isStopWord(part)).map(termsOf),
    }))
  }

  return { queryWords, termsOf, stemsOfGroup: (group: number): readonly string[] => stemsOf[group] ?? [] }
}

/** The distinct words of a document. A synonym group of its module that it has a word of is added, at reduced weight. */
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
  const known = words.get(text)
  if (!known) {
    words.set(text, { weight, ofName, field, times: 1 })
    return
  }
  if (ofName) known.ofName = true
  known.times = known.field === field ? known.times + 1 : 1
  known.field = field
  if (known.times <= REPEATS_CAP) known.weight += weight
}

/** A phrase of the group is added word by word, but only a single word of it shows that the document is meant. */
function addGroup(group: readonly string[], words: Map<string, DocumentWord>): void {
  const members = new Set<string>()
  const signs = new Set<string>()
  for (const entry of group.slice(0, GROUP_CAP)) {
    const entryWords = wordsOf(entry.slice(0, 100)).filter(({ text }) => !isStopWord(text))
    for (const { text } of entryWords) members.add(text)
    if (entryWords.length === 1 && entryWords[0]) signs.add(stemOf(entryWords[0].text))
  }
  let most = 0
  for (const [text, { weight }] of words) if (signs.has(stemOf(text))) most = Math.max(most, weight)
  if (most === 0) return
  for (const text of members) {
    if (!words.has(text)) words.set(text, { weight: most * OWN_SYNONYM, ofName: false, field: -1, times: 0 })
  }
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

/** Two known words that are written as one (`websearch`), the commoner the better; undefined when there are none. */
export function splitJoined(
  word: string,
  documentsOf: (word: string) => number,
): readonly [string, string] | undefined {
  if (word.length < SHORTEST_JOINED) return undefined
  let best: readonly [string, string] | undefined
  let most = 0
  for (let i = SHORTEST_PIECE; i <= word.length - SHORTEST_PIECE; i++) {
    const pieces = [word.slice(0, i), word.slice(i)] as const
    const documents = Math.min(documentsOf(pieces[0]), documentsOf(pieces[1]))
    if (documents > most) {
      most = documents
      best = pieces
    }
  }
  return best
}
