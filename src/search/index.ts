import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Log } from '../core/log.ts'
import { documentOf, type SearchDocument, type SearchSource } from './document.ts'
import { fuse, type Ranking, type SearchHit } from './fuse.ts'
import { createKeywordIndex } from './keyword.ts'

export type { SearchSource } from './document.ts'
export type { Ranking, SearchHit } from './fuse.ts'

export interface ToolQueryOptions {
  readonly limit: number
  /** The caller's view: only these ids are answered, counted or told apart. */
  readonly visible: (id: string) => boolean
  /** How often a tool was called; settles near ties. */
  readonly usage?: (id: string) => number
}

/** Which tools match a query. Follows the catalogue, answers from memory. */
export interface ToolSearch {
  /**
   * Says what tools exist now. Cheap: the work is done by the first query after it, and only for tools whose text changed.
   * @param version the catalogue's; the same version twice is ignored
   */
  sync(sources: Iterable<SearchSource>, version: number): void
  /** Does that work ahead of the first query, a few milliseconds at a time. A query meanwhile finishes it at once. */
  warm(): Promise<void>
  /** The best matches, best first; empty when nothing is relevant. Never throws on any query. */
  query(query: string, options: ToolQueryOptions): { readonly hits: SearchHit[]; readonly ranking: Ranking }
}

/** More candidates than answers, so that usage can reorder near ties at the edge. */
const CANDIDATES_FACTOR = 2
const WARM_SLICE_MS = 4

export function createToolSearch({ log }: { readonly log?: Log } = {}): ToolSearch {
  const keyword = createKeywordIndex()
  const hashes = new Map<string, string>()
  let syncedVersion: number | undefined
  let work: Iterator<void> | undefined

  /** Indexes what changed, one tool a step. */
  function* follow(sources: readonly SearchSource[]): Generator<void> {
    const gone = new Set(hashes.keys())
    for (const { id } of sources) gone.delete(id)
    for (const id of gone) {
      keyword.remove(id)
      hashes.delete(id)
    }
    let indexed = 0
    for (const source of sources) {
      const document = documentOf(source)
      const hash = hashOf(document)
      if (hashes.get(source.id) === hash) continue
      keyword.add(document)
      hashes.set(source.id, hash)
      indexed++
      yield
    }
    log?.debug('search index follows the catalogue', { tools: keyword.size, indexed, removed: gone.size })
  }

  /** Works until done or the slice is used up; true when done. */
  function catchUp(sliceMs = Number.POSITIVE_INFINITY): boolean {
    const current = work
    if (!current) return true
    const started = performance.now()
    while (!current.next().done) if (performance.now() - started >= sliceMs) return false
    work = undefined
    return true
  }

  return {
    sync(sources, version) {
      if (version === syncedVersion) return
      syncedVersion = version
      work = follow([...sources])
    },
    async warm() {
      while (!catchUp(WARM_SLICE_MS)) await setImmediate()
    },
    query(query, { limit, visible, usage }) {
      catchUp()
      const candidates = usage ? limit * CANDIDATES_FACTOR : limit
      const matches = keyword.search(query, { limit: candidates, filter: visible })
      return { hits: fuse(matches, limit, usage), ranking: 'keyword' }
    },
  }
}

function hashOf(document: SearchDocument): string {
  return createHash('sha1').update(JSON.stringify(document)).digest('base64')
}
