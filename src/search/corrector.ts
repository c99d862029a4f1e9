import SearchableMap from 'minisearch/SearchableMap'
import { getOrInsert } from '../core/get-or-insert.ts'

/** A known word that an unknown one may stand for. `closeness` is 0 to 1. */
export interface Correction {
  readonly word: string
  readonly closeness: number
}

const SHORTEST_PREFIX = 3
const LONGEST_WORD = 48
/** Maximum closeness of a guess; MiniSearch's own weights for prefix and fuzzy matches. */
const CLOSENESS = { prefix: 0.375, fuzzy: 0.45 } as const

/**
 * Finds known words for a word that no document contains. Indexes the words with one first letter when the first such
 * word is corrected, and again after `version` changes.
 */
export function createCorrector(vocabulary: {
  /** Changes when words are added or removed. */
  version(): number
  /** The known words with the first letter of `word`. */
  withInitialOf(word: string): Iterable<string>
}) {
  const trees = new Map<string, SearchableMap<true>>()
  let version = -1

  function treeFor(word: string): SearchableMap<true> {
    if (vocabulary.version() !== version) {
      trees.clear()
      version = vocabulary.version()
    }
    const [initial = ''] = word
    return getOrInsert(trees, initial, () => {
      const tree = new SearchableMap<true>()
      for (const text of vocabulary.withInitialOf(word)) tree.set(text, true)
      return tree
    })
  }

  return {
    /**
     * The nearest known words, best first. Only words with the same first letter, which is rarely wrong.
     * @param accept words that may be returned; default all
     */
    nearest(word: string, limit: number, accept: (word: string) => boolean = () => true): Correction[] {
      if (word.length < SHORTEST_PREFIX || word.length > LONGEST_WORD) return []
      const tree = treeFor(word)
      const closenessByWord = new Map<string, number>()
      const addMatch = (text: string, closeness: number): void => {
        if (text !== word && closeness > (closenessByWord.get(text) ?? 0) && accept(text))
          closenessByWord.set(text, closeness)
      }
      for (const text of tree.atPrefix(word).keys()) {
        addMatch(text, CLOSENESS.prefix * (text.length / (text.length + 0.3 * (text.length - word.length))))
      }
      const typos = maxTypos(word)
      if (typos) {
        for (const [text, [, distance]] of tree.fuzzyGet(word, typos))
          addMatch(text, CLOSENESS.fuzzy * (text.length / (text.length + distance)))
      }
      return [...closenessByWord]
        .map(([text, closeness]) => ({ word: text, closeness }))
        .sort((a, b) => b.closeness - a.closeness || (a.word < b.word ? -1 : 1))
        .slice(0, limit)
    },
  }
}

/** Maximum number of wrong letters. None in short words, where most guesses would be other words. */
function maxTypos(word: string): number | false {
  if (word.length < 5) return false
  return word.length < 9 ? 1 : 2
}
