import type { SearchDocument } from './document.ts'
import { createLexicalIndex } from './lexical.ts'

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

/** The lexical index, addressed by id. */
export interface KeywordIndex {
  readonly size: number
  /** Adds a document, replacing the one of the same id. */
  add(document: SearchDocument): void
  remove(id: string): void
  search(query: string, options: KeywordSearchOptions): KeywordHit[]
}

export function createKeywordIndex(): KeywordIndex {
  const index = createLexicalIndex()
  const slots = new Map<string, number>()
  const ids: string[] = []
  const free: number[] = []
  return {
    get size() {
      return index.size
    },
    add(document) {
      const slot = slots.get(document.id) ?? free.pop() ?? ids.length
      slots.set(document.id, slot)
      ids[slot] = document.id
      index.set(slot, document)
    },
    remove(id) {
      const slot = slots.get(id)
      if (slot === undefined) return
      slots.delete(id)
      free.push(slot)
      index.clear(slot)
    },
    search(query, { limit, filter }) {
      const idOf = (slot: number): string => ids[slot] ?? ''
      const matches = index.search(query, { limit, accept: (slot) => !filter || filter(idOf(slot)) })
      return matches.hits.map(({ slot, score, exactName }) => ({
        id: idOf(slot),
        score,
        terms: matches.termsOf(slot),
        exactName,
      }))
    },
  }
}
