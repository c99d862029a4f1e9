import { dirname, join } from 'node:path'
import type { Caller } from '../core/caller.ts'
import { messageOf } from '../core/errors.ts'
import { lazy, once } from '../core/once.ts'
import type { Llm } from '../core/service-types.ts'
import type { Tool } from '../core/tool.ts'
import type { MetaHost } from '../meta/meta-host.ts'
import type { Atlas } from '../search/atlas.ts'
import { categoryLine } from '../search/category-line.ts'
import { createConfiguredRetriever } from '../search/configured-retriever.ts'
import type { LoadProgress } from '../search/embedder.ts'
import type { EncoderFiles } from '../search/embedders/included-encoder.ts'
import { safeSiblingsOf } from '../search/safe-siblings.ts'
import type { SearchSource } from '../search/search-document.ts'
import { createToolSearch, type SearchStatus } from '../search/tool-search.ts'
import { findUsedWith, type UsedWith } from '../search/used-with.ts'
import type { WrittenText } from '../search/written-requests.ts'
import { createBytesStore } from '../state/file-store.ts'
import type { View } from '../view/view.ts'
import type { AppBase } from './app-base.ts'
import { includedAtlas, includedTranslator } from './package-info.ts'
import { createSearchExpansion } from './search-expansion.ts'
import { createIndexing } from './search-indexing.ts'

/** Relevance from which the best tool is likely enough to name tools that are used with it. */
const MIN_CONFIDENT_SCORE = 0.5

/** Search over the catalog. Each caller finds only what it sees. */
export interface CatalogSearch {
  readonly find: MetaHost['search']
  /** See `MetaHost.writeSearchText`; only with `search.expand`. */
  readonly writeText?: NonNullable<MetaHost['writeSearchText']>
  writtenText(tool: Tool): WrittenText | undefined
  readonly categoryLine: MetaHost['categoryLine']
  readonly knownNeed: MetaHost['knownNeed']
  status(): SearchStatus
  /** See `App.indexed`. */
  indexed(): Promise<void>
  /** Indexes now and after each change, ahead of the first query. */
  follow(): void
  stop(): Promise<void>
}

export interface CatalogSearchOptions extends AppBase {
  readonly encoder: EncoderFiles | undefined
  /** Meta-tools that are not listed but can be searched. */
  readonly unlisted: {
    sources(): readonly SearchSource[]
    of(caller: Caller): ReadonlyMap<string, unknown>
  }
  /** Returns how often a tool ran for this principal. */
  usage(principal: string): (tool: string) => number
  /** Ids of tools that this principal often calls before and after one. */
  around(principal: string, tool: string): UsedWith
  /** Ids of tools to rank first for a caller. */
  first(caller: Caller): readonly string[]
  /** True while servers connect for the first time. */
  arriving(): boolean
  /** The model of `services.llm`. */
  llm(signal: AbortSignal): Llm | undefined
  /** Called when everything is indexed. */
  done(): void
  readonly onModelProgress: ((progress: LoadProgress) => void) | undefined
  /** Called once, if search continues without the optional model. */
  onModelLost(): void
}

const toolsOf = ({ tools }: View, owner: string): readonly Tool[] =>
  tools.flatMap(({ tool }) => (tool.module === owner ? [tool] : []))

export function createCatalogSearch(options: CatalogSearchOptions): CatalogSearch {
  const { config, catalog, log } = options
  const { clock } = options.state
  const { dirs, search: settings } = config
  const store = createBytesStore(join(dirs.state, 'search'), (error) =>
    log.warn('cannot store or read the search index', { error: messageOf(error) }),
  )
  // Vectors of the bundled tools, which a new installation need not compute.
  const includedVectors = options.encoder && createBytesStore(dirname(options.encoder.model))
  let lossReported = false
  const places = {
    cacheDir: dirs.cache,
    baseDir: config.file === undefined ? dirs.workspace : dirname(config.file),
    ...(options.encoder && { encoder: options.encoder }),
  }
  const semantic = createConfiguredRetriever(settings, places, {
    queryTimeoutMs: settings.embedderOptions.queryTimeoutMs,
    log,
    clock,
    store: { save: store.save, load: async (name) => (await store.load(name)) ?? includedVectors?.load(name) },
    ...(options.onModelProgress && { onProgress: options.onModelProgress }),
    onChange({ state }) {
      if (state !== 'unavailable' || lossReported) return
      lossReported = true
      options.onModelLost()
    },
  })
  // Created for the first query or for indexing, because listing tools needs none of this code.
  const search = lazy(() =>
    createToolSearch({
      log,
      store,
      fusion: settings.fusion,
      ...(settings.embedder !== 'none' && { table: options.table }),
      atlas: includedAtlas,
      translate: includedTranslator(),
      ...(semantic && { semantic }),
    }),
  )
  const atlas = once((): Atlas | undefined => {
    try {
      return includedAtlas()
    } catch {
      // The search index logs the error.
      return undefined
    }
  })
  const { expand } = settings
  const expansion = expand
    ? createSearchExpansion({
        kind: expand,
        questionsPerDay: settings.expandPerDay,
        stateDir: dirs.state,
        catalog,
        atlas,
        llm: options.llm,
        clock,
        log,
        onWritten: () => index.again(),
      })
    : undefined
  const index = createIndexing({
    catalog,
    ...(expansion && { written: expansion }),
    search: search.get,
    unlisted: options.unlisted.sources,
    clock,
    log,
    arriving: options.arriving,
    done() {
      options.done()
      expansion?.begin()
    },
  })
  return {
    ...(expansion && { writeText: expansion.ask }),
    writtenText: (tool) => expansion?.of(tool),
    async find(query, caller, limit, how) {
      const view = options.view(caller)
      const { byId, hidden } = view
      const extra = options.unlisted.of(caller)
      index.now()
      const usage = options.usage(caller.principal)
      const found = await search.get().query(query, {
        ...how,
        limit,
        visible: (id) => byId.has(id) || extra.has(id),
        hidden: () => hidden.keys(),
        usage,
        safeSiblings(id) {
          const tool = byId.get(id)?.tool
          return tool?.effect === 'destructive' ? safeSiblingsOf(tool, toolsOf(view, tool.module)) : []
        },
      })
      const [best] = found.hits
      const isSure = best && best.query === undefined && !found.unanswered && best.score >= MIN_CONFIDENT_SCORE
      const tool = isSure ? byId.get(best.id)?.tool : undefined
      const unlisted = tool && toolsOf(view, tool.module).filter(({ id }) => !found.hits.some((hit) => hit.id === id))
      const usedTogether =
        tool && unlisted && findUsedWith(tool, unlisted, atlas(), options.around(caller.principal, tool.id))
      const answer = usedTogether ? { ...found, usedWith: usedTogether } : found
      const firstIds = options.first(caller)
      if (firstIds.length === 0) return answer
      const isFirst = ({ id }: { readonly id: string }): boolean => firstIds.includes(id)
      return { ...answer, hits: [...answer.hits.filter(isFirst), ...answer.hits.filter((hit) => !isFirst(hit))] }
    },
    categoryLine: (owner, view) => categoryLine(owner, toolsOf(view, owner.id), atlas()),
    knownNeed: (tool) => (tool.origin === 'upstream' ? atlas()?.needOf(tool) : undefined),
    status: () => ({ ...search.get().status, ...(expansion && { expand: expansion.status }) }),
    async indexed() {
      index.now()
      await search.get().warm()
      await semantic?.settled()
    },
    follow: index.follow,
    async stop() {
      expansion?.stop()
      index.stop()
      await search.made?.close()
    },
  }
}
