import { PegboardError } from '../core/errors.ts'
import { silentLog } from '../core/log.ts'
import { createConfiguredRetriever, describeEmbedder } from '../search/configured-retriever.ts'
import type { LoadProgress } from '../search/embedder.ts'
import type { EmbedderPlaces } from '../search/embedders/choose-embedder.ts'
import type { EvalSearch } from '../search/evaluate.ts'
import type { SearchSettings } from '../search/search-options.ts'
import { createToolSearch, type ToolQueryOptions } from '../search/tool-search.ts'
import { embeddedTable, includedAtlas, includedTranslator } from './package-info.ts'

export interface MeasuredSearchOptions {
  readonly settings: SearchSettings
  readonly places: EmbedderPlaces
  readonly ranker?: NonNullable<ToolQueryOptions['ranker']>
  /** Called while a model is loaded, and when everything is indexed. */
  readonly onProgress?: (progress: LoadProgress) => void
  readonly onIndexed?: () => void
  readonly onWarning?: (message: string) => void
}

/** The search that clients use, for `evaluate`. Indexes all tools first, and stores nothing. May be loaded again. */
export function createMeasuredSearch(options: MeasuredSearchOptions): {
  readonly search: EvalSearch
  close(): Promise<void>
} {
  const { settings, places, ranker = 'hybrid', onProgress, onIndexed, onWarning } = options
  const { embedder, embedderOptions, fusion } = settings
  const log = { ...silentLog, warn: (message: string) => onWarning?.(message) }
  // A slow model is measured too.
  const semantic = createConfiguredRetriever(settings, places, {
    queryTimeoutMs: embedderOptions.requestTimeoutMs,
    log: silentLog,
    ...(onProgress && { onProgress }),
  })
  const search = createToolSearch({
    log,
    fusion,
    ...(embedder !== 'none' && ranker !== 'lexical' && { table: embeddedTable }),
    atlas: includedAtlas,
    translate: includedTranslator(),
    ...(semantic && { semantic }),
  })
  let version = 0
  return {
    search: {
      async load(sources) {
        search.sync(sources, ++version)
        await search.warm()
        await semantic?.settled()
        onIndexed?.()
        if (semantic && semantic.status.state !== 'ready')
          throw new PegboardError('E_UPSTREAM_UNAVAILABLE', `${describeEmbedder(embedder)}: ${semantic.status.reason}`)
      },
      async query(query, limit) {
        const { hits, unanswered } = await search.query(query, { limit, visible: () => true, ranker })
        return { ids: hits.map(({ id }) => id), unlikely: unanswered !== undefined }
      },
    },
    close: () => search.close(),
  }
}
