import type { Catalog, Snapshot } from '../catalog/catalog.ts'
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { SearchSource } from '../search/search-document.ts'
import { sourcesOf } from '../search/search-sources.ts'
import type { ToolSearch } from '../search/tool-search.ts'

export interface IndexingOptions {
  readonly catalog: Catalog
  search(): Pick<ToolSearch, 'sync' | 'warm'>
  /** Meta-tools that are not listed but can be searched. */
  unlisted(): readonly SearchSource[]
  /** Text that was written for the tools, and a number that changes with it. */
  readonly written?: { withText(sources: readonly SearchSource[]): readonly SearchSource[]; readonly version: number }
  readonly clock: Clock
  readonly log: Log
  /** True while servers connect for the first time. */
  arriving(): boolean
  /** Called when everything is indexed. */
  done(): void
}

/** Joins changes that arrive together, for example when ten servers connect. */
const DELAY_MS = 200
/** More than the number of times that text is written for one state of the catalog. */
const VERSION_STEP = 1 << 20
/** Maximum delay while changes keep coming. */
const MAX_DELAY_MS = 3_000

export function createIndexing(options: IndexingOptions) {
  const { catalog, search, unlisted, written, clock, log, arriving, done } = options
  let indexed: Snapshot['tools'] | undefined
  let indexedText = 0
  let cancelTimer: (() => void) | undefined
  let latestStart = 0
  let unlisten: (() => void) | undefined

  function syncTools(): void {
    const snapshot = catalog.snapshot()
    // `snapshot.tools` is the same object if only the state of an owner changed.
    const text = written?.version ?? 0
    if (indexed === snapshot.tools && indexedText === text) return
    indexed = snapshot.tools
    indexedText = text
    const sources = sourcesOf(snapshot)
    const all = [...(written?.withText(sources) ?? sources), ...unlisted()]
    search().sync(all, snapshot.version * VERSION_STEP + text)
  }

  function scheduleIndexing(): void {
    if (!cancelTimer) latestStart = clock.now() + MAX_DELAY_MS
    cancelTimer?.()
    cancelTimer = clock.after(DELAY_MS, warm)
  }

  function warm(): void {
    // Calls wait for servers that start, but no call waits for the index.
    if (arriving() && clock.now() < latestStart) scheduleIndexing()
    else {
      cancelTimer = undefined
      syncTools()
      search()
        .warm()
        .then(done, (error) => log.error('indexing failed', { error }))
    }
  }

  return {
    /** Schedules the current tools for indexing; a query, or `follow`, does the work. */
    now: syncTools,
    /** Indexes now and after each change, ahead of the first query. May be called again. */
    follow(): void {
      unlisten ??= catalog.onChange(scheduleIndexing)
      scheduleIndexing()
    },
    /** Like `follow`, after a change of texts that are not in the catalog. */
    again: scheduleIndexing,
    stop(): void {
      unlisten?.()
      cancelTimer?.()
    },
  }
}
