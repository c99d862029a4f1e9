import { join } from 'node:path'
import type { Catalog } from './catalog/catalog.ts'
import type { Clock } from './core/clock.ts'
import { messageOf } from './core/errors.ts'
import type { Log } from './core/log.ts'
import { createIndexing } from './indexing.ts'
import type { Host } from './meta/host.ts'
import { laneFor } from './search/deferred.ts'
import type { LoadProgress } from './search/embedder.ts'
import { createToolSearch, type SearchSource, type SearchStatus, type ToolSearch } from './search/index.ts'
import type { SearchSettings } from './search/options.ts'
import type { EmbeddingTable } from './search/table.ts'
import { createBytesStore } from './state/files.ts'
import type { View } from './view/view.ts'

/** Search over the whole catalogue, of which each caller finds what it sees. */
export interface Searching {
  readonly find: Host['search']
  status(): SearchStatus
  /** See `App.indexed`. */
  indexed(): Promise<void>
  /** Indexes ahead of the first query, and after each change. */
  follow(): void
  stop(): Promise<void>
}

export interface SearchingOptions {
  readonly catalog: Catalog
  readonly settings: SearchSettings
  readonly dirs: { readonly state: string; readonly cache: string }
  /** What paths of an optional model are relative to. */
  readonly baseDir: string
  /** The embedded model. */
  table(): EmbeddingTable
  readonly clock: Clock
  readonly log: Log
  view(caller: Parameters<Host['search']>[1]): View
  /** What is found beside the tools of the view. */
  readonly beside: {
    sources(): readonly SearchSource[]
    of(caller: Parameters<Host['search']>[1]): ReadonlyMap<string, unknown>
  }
  /** How often tools ran for this principal. */
  usage(principal: string): (tool: string) => number
  /** Tools that come first for a caller who sees them. */
  first(caller: Parameters<Host['search']>[1]): readonly string[]
  /** Servers are coming that calls wait for. */
  arriving(): boolean
  /** All of it is indexed. */
  done(): void
  readonly onModelProgress: ((progress: LoadProgress) => void) | undefined
  /** Told once, when search has to go on without the optional model. */
  onModelLost(): void
}

export function createSearching(options: SearchingOptions): Searching {
  const { catalog, settings, dirs, clock, log } = options
  const store = createBytesStore(join(dirs.state, 'search'), (error) =>
    log.warn('the search index could not be kept or read', { error: messageOf(error) }),
  )
  let told = false
  const places = { cacheDir: dirs.cache, baseDir: options.baseDir }
  const semantic = laneFor(settings, places, {
    queryTimeoutMs: settings.embedderOptions.queryTimeoutMs,
    log,
    clock,
    store,
    ...(options.onModelProgress && { onProgress: options.onModelProgress }),
    onChange({ state }) {
      if (state !== 'unavailable' || told) return
      told = true
      options.onModelLost()
    },
  })
  // Made for the first question, or to be ahead of it: a first list needs none of its code.
  let made: ToolSearch | undefined
  const search = (): ToolSearch => {
    made ??= createToolSearch({
      log,
      store,
      fusion: settings.fusion,
      ...(settings.embedder !== 'none' && { table: options.table }),
      ...(semantic && { semantic }),
    })
    return made
  }
  const index = createIndexing({
    catalog,
    search,
    beside: options.beside.sources,
    clock,
    log,
    arriving: options.arriving,
    done: options.done,
  })
  return {
    async find(query, caller, limit, how) {
      const { byId } = options.view(caller)
      const beside = options.beside.of(caller)
      index.now()
      const usage = options.usage(caller.principal)
      const answer = await search().query(query, {
        ...how,
        limit,
        visible: (id) => byId.has(id) || beside.has(id),
        usage,
      })
      const first = options.first(caller)
      if (first.length === 0) return answer
      const isFirst = ({ id }: { readonly id: string }): boolean => first.includes(id)
      return { ...answer, hits: [...answer.hits.filter(isFirst), ...answer.hits.filter((hit) => !isFirst(hit))] }
    },
    status: () => search().status,
    async indexed() {
      index.now()
      await search().warm()
      await semantic?.settled()
    },
    follow: index.follow,
    async stop() {
      index.stop()
      await made?.close()
    },
  }
}
