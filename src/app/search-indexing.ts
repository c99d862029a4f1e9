import type { Catalog, Snapshot } from '../catalog/catalog.ts'
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { sourcesOf } from '../search/search-sources.ts'
import type { SearchSource, ToolSearch } from '../search/tool-search.ts'

/** Keeps the search index current. */
export interface Indexing {
  /** Schedules the current tools for indexing; a query, or `follow`, does the work. */
  now(): void
  /** Indexes now and after each change, ahead of the first query. May be called again. */
  follow(): void
  stop(): void
}

export interface IndexingOptions {
  readonly catalog: Catalog
  search(): Pick<ToolSearch, 'sync' | 'warm'>
  /** Tools that are not in the catalogue. */
  beside(): readonly SearchSource[]
  readonly clock: Clock
  readonly log: Log
  /** True while servers connect for the first time. */
  arriving(): boolean
  /** Called when everything is indexed. */
  done(): void
}

/** Joins changes that come together, such as ten servers that connect. */
const DELAY_MS = 200
/** Maximum delay while changes keep coming. */
const PATIENCE_MS = 3_000

export function createIndexing({ catalog, search, beside, clock, log, arriving, done }: IndexingOptions): Indexing {
  let indexed: Snapshot['tools'] | undefined
  let waiting: (() => void) | undefined
  let latest = 0
  let unlisten: (() => void) | undefined

  function now(): void {
    const snapshot = catalog.snapshot()
    // Unchanged if only the state of an owner changed.
    if (indexed === snapshot.tools) return
    indexed = snapshot.tools
    search().sync([...sourcesOf(snapshot), ...beside()], snapshot.version)
  }

  function soon(): void {
    if (!waiting) latest = clock.now() + PATIENCE_MS
    waiting?.()
    waiting = clock.after(DELAY_MS, warm)
  }

  function warm(): void {
    // Calls wait for servers that start, but no call waits for the index.
    if (arriving() && clock.now() < latest) soon()
    else {
      waiting = undefined
      now()
      search()
        .warm()
        .then(done, (error) => log.error('indexing failed', { error }))
    }
  }

  return {
    now,
    follow() {
      unlisten ??= catalog.onChange(soon)
      soon()
    },
    stop() {
      unlisten?.()
      waiting?.()
    },
  }
}
