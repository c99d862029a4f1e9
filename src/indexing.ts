import type { Catalog, Snapshot } from './catalog/catalog.ts'
import type { Clock } from './core/clock.ts'
import type { Log } from './core/log.ts'
import type { SearchSource, ToolSearch } from './search/index.ts'
import { sourcesOf } from './search/sources.ts'

/** Keeps what is searched with the catalogue. */
export interface Indexing {
  /** What is there now is searched from now on; the work is done when somebody asks, or `follow` gets to it. */
  now(): void
  /** Indexes ahead of the first query, and after each change. May be called again. */
  follow(): void
  stop(): void
}

export interface IndexingOptions {
  readonly catalog: Catalog
  search(): Pick<ToolSearch, 'sync' | 'warm'>
  /** What is searched beside the catalogue. */
  beside(): readonly SearchSource[]
  readonly clock: Clock
  readonly log: Log
  /** Servers are coming that calls wait for. */
  arriving(): boolean
  /** All of it is indexed. */
  done(): void
}

/** A burst of changes, such as ten servers connecting, is indexed once. */
const DELAY_MS = 200
/** After so long it is indexed though more is coming. */
const PATIENCE_MS = 3_000

export function createIndexing({ catalog, search, beside, clock, log, arriving, done }: IndexingOptions): Indexing {
  let indexed: Snapshot['tools'] | undefined
  let waiting: (() => void) | undefined
  let latest = 0
  let unlisten: (() => void) | undefined

  function now(): void {
    const snapshot = catalog.snapshot()
    // That an owner is connecting or failing changes nothing for search.
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
    // Calls wait for servers that are starting, and nobody for the index.
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
