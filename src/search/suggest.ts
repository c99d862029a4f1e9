import MiniSearch from 'minisearch'
import SearchableMap from 'minisearch/SearchableMap'
import { wordsOf } from './tokenize.ts'

/** A known word that a misspelt or unfinished one may stand for; `closeness` is 0 to 1. */
export interface Correction {
  readonly word: string
  readonly closeness: number
}

/** Guesses what a word that no document has was meant to be. */
export interface Corrector {
  /** The nearest known words, best first. They keep the first letter, which is rarely the wrong one. */
  nearest(word: string, limit: number): Correction[]
}

const SHORTEST_PREFIX = 3
const LONGEST_WORD = 48
/** What a guess is worth at best: MiniSearch's own weights of prefix and fuzzy matches. */
const CLOSENESS = { prefix: 0.375, fuzzy: 0.45 } as const

/**
 * A corrector over a vocabulary. Only words beginning with the asked letter are indexed, on the first question about that
 * letter, and kept until `version` changes.
 */
export function createCorrector(vocabulary: {
  /** Whatever differs when words came or went. */
  version(): number
  /** The known words with the first letter of `word`. */
  withInitialOf(word: string): Iterable<string>
}): Corrector {
  const trees = new Map<string, SearchableMap<true>>()
  let version = -1

  function treeFor(word: string): SearchableMap<true> {
    if (vocabulary.version() !== version) {
      trees.clear()
      version = vocabulary.version()
    }
    const [initial = ''] = word
    const known = trees.get(initial)
    if (known) return known
    const tree = new SearchableMap<true>()
    for (const text of vocabulary.withInitialOf(word)) tree.set(text, true)
    trees.set(initial, tree)
    return tree
  }

  return {
    nearest(word, limit) {
      if (word.length < SHORTEST_PREFIX || word.length > LONGEST_WORD) return []
      const tree = treeFor(word)
      const found = new Map<string, number>()
      const keep = (text: string, closeness: number): void => {
        if (text !== word && closeness > (found.get(text) ?? 0)) found.set(text, closeness)
      }
      for (const text of tree.atPrefix(word).keys()) {
        keep(text, CLOSENESS.prefix * (text.length / (text.length + 0.3 * (text.length - word.length))))
      }
      const typos = typosIn(word)
      if (typos) {
        for (const [text, [, distance]] of tree.fuzzyGet(word, typos))
          keep(text, CLOSENESS.fuzzy * (text.length / (text.length + distance)))
      }
      return [...found]
        .map(([text, closeness]) => ({ word: text, closeness }))
        .sort((a, b) => b.closeness - a.closeness || (a.word < b.word ? -1 : 1))
        .slice(0, limit)
    },
  }
}

/** How many letters may be wrong: none in short words, where most guesses would be other words. */
function typosIn(word: string): number | false {
  if (word.length < 5) return false
  return word.length < 9 ? 1 : 2
}

/** A tool as a person may begin to write it. */
export interface Suggestible {
  readonly id: string
  /** Its name, and its title or aliases where it has them. */
  readonly texts: readonly string[]
}

/** Tool names for what is being typed. */
export interface Suggester {
  /** At most `limit` ids whose names or titles have the words typed so far, the last one unfinished, best first. */
  suggest(typed: string, limit: number, visible?: (id: string) => boolean): string[]
}

const TYPED_CAP = 100

/** Built at the first question, from the tools there are then. */
export function createSuggester(tools: () => Iterable<Suggestible>): Suggester {
  let index: MiniSearch<{ id: string; text: string }> | undefined

  function build(): MiniSearch<{ id: string; text: string }> {
    const built = new MiniSearch<{ id: string; text: string }>({ fields: ['text'], tokenize: tokensOf })
    for (const { id, texts } of tools()) if (!built.has(id)) built.add({ id, text: texts.join(' ') })
    return built
  }

  return {
    suggest(typed, limit, visible = () => true) {
      const words = typedWords(typed.slice(0, TYPED_CAP))
      if (words.length === 0 || limit < 1) return []
      index ??= build()
      const found = index.search(words.join(' '), {
        tokenize: (text) => text.split(' '),
        prefix: (_word, at) => at === words.length - 1,
        fuzzy: typosIn,
        combineWith: 'AND',
        filter: ({ id }) => visible(id),
      })
      return found.slice(0, limit).map(({ id }) => id)
    },
  }
}

/** The words of a text, and the pieces of joined ones. */
function tokensOf(text: string): string[] {
  return wordsOf(text).flatMap((word) => [word.text, ...word.parts])
}

/** The words typed so far. A single letter at the end counts, because typing begins with one. */
function typedWords(text: string): string[] {
  const words = wordsOf(text).flatMap((word) => (word.parts.length > 0 ? word.parts : [word.text]))
  const [letter] = /(?<![\p{L}\p{N}])[\p{L}\p{N}]$/u.exec(text) ?? []
  return letter && words.at(-1) !== letter ? [...words, letter.toLowerCase()] : words
}
