import { setImmediate } from 'node:timers/promises'
import { monotonicMs } from '../core/clock.ts'
import { type Log, silentLog } from '../core/log.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { Atlas } from './atlas.ts'
import { createCandidateFinder } from './candidates.ts'
import { clausesOf } from './clauses.ts'
import type { EmbeddingTable } from './embedding-table.ts'
import type { Features, Fusion } from './fuse-rankings.ts'
import type { QueryTranslator } from './query-translator.ts'
import { rankCandidates } from './rank-candidates.ts'
import { withSafeSiblings } from './safe-siblings.ts'
import { addClauses, createAnswer, joinAnswers, namedIdsOf, rankingOf } from './search-answer.ts'
import { type CorpusOptions, createCorpus, type ModelState } from './search-corpus.ts'
import type { SearchSource } from './search-document.ts'
import type { SemanticRetriever, SemanticStatus } from './semantic-retriever.ts'
import type { UsedWith } from './used-with.ts'
import type { WritingState } from './written-requests.ts'

/** `keyword`: by words only. `hybrid`: also by the embedding table or the encoder. `semantic`: also by a custom model. */
export type Ranking = 'keyword' | 'hybrid' | 'semantic'

export interface SearchHit {
  readonly id: string
  /**
   * 0 to 1: probability that the tool answers the query; 1 only for a tool that the query names. Never above the
   * score of a better hit of the same query.
   */
  readonly score: number
  /** Index of the query that it answers, if there were several. */
  readonly query?: number
  /** The query words that matched. */
  readonly matched: readonly string[]
  /** The features of the tool; only with `explain`. */
  readonly why?: Features & {
    readonly calls: number
    readonly exactName: boolean
    /** Cosine of a custom model's vectors of query and tool. */
    readonly external?: number
    /** The ranking score; comparable within one query only. */
    readonly fused: number
  }
}

export interface ToolQueryOptions {
  readonly limit: number
  /** True for ids that the caller sees. */
  readonly visible: (id: string) => boolean
  /** Ids of tools that do not influence the answer: those that the caller does not see. Default: none. */
  readonly hidden?: () => Iterable<string>
  /** Number of calls of a tool; decides near ties. */
  readonly usage?: (id: string) => number
  /** Tools that change what this destructive tool deletes; see `withSafeSiblings`. */
  readonly safeSiblings?: (id: string) => readonly string[]
  /** Lexical: only the words; vector: only the embeddings. Default: hybrid. */
  readonly ranker?: 'hybrid' | 'lexical' | 'vector'
  /** Adds `why` to every hit. */
  readonly explain?: boolean
  /** Leaves out tools that score far below a hit that is very likely right. */
  readonly brief?: boolean
}

export interface ToolAnswer {
  readonly hits: readonly SearchHit[]
  readonly ranking: Ranking
  /** The queries for which no tool is likely to be right. The hits are then the nearest ones. */
  readonly unanswered?: readonly string[]
  /** True if tools that were just added are not searchable yet. */
  readonly behind?: true
  /** Tools that the query names but that did not fit into the answer. */
  readonly more?: readonly string[]
  /** Tools that are often called before and after the best one, and are not among the hits. */
  readonly usedWith?: UsedWith
}

/** What search can do at the moment. */
export interface SearchStatus {
  readonly ranking: Ranking
  /** State of the embedding table. */
  readonly embedded: ModelState
  /** State of the encoder or custom model, if there is one. */
  readonly semantic?: SemanticStatus
  /** How far text for unknown tools is written; only with `search.expand`. */
  readonly expand?: { readonly state: WritingState; readonly written: number; readonly missing: number }
}

/** Storage for byte arrays, each written whole or not at all. */
export interface BytesStore {
  get(name: string): Uint8Array | undefined
  set(name: string, bytes: Uint8Array): void
}

export interface ToolSearchOptions {
  readonly log?: Log
  /** The embedding table, opened on first use; undefined for keyword search only. */
  readonly table?: () => EmbeddingTable | undefined
  /** Known tools of public servers, opened on first use. */
  readonly atlas?: () => Atlas | undefined
  /** Translates queries in other languages. Default: they are searched as they are. */
  readonly translate?: QueryTranslator
  /** Storage for the index between runs. */
  readonly store?: BytesStore
  /** Retriever of the encoder or a custom model. */
  readonly semantic?: SemanticRetriever
  readonly fusion?: Fusion
}

/** Finds the tools that match a query. Follows the catalog and answers from memory. */
export interface ToolSearch {
  /**
   * Sets the current tools. Cheap: the next query does the work, and only for tools whose text changed.
   * @param version of the catalog; a repeated version is ignored
   */
  sync(sources: Iterable<SearchSource>, version: number): void
  /** Indexes before the first query, a few milliseconds at a time, and saves the index. */
  warm(): Promise<void>
  /**
   * The best matches, best first; see `unanswered` for weak ones. Several queries, one per line, get up to three
   * tools each. Accepts any query without throwing.
   */
  query(query: string, options: ToolQueryOptions): Promise<ToolAnswer>
  readonly status: SearchStatus
  /** Saves the index and stops the encoder or custom model. */
  close(): Promise<void>
}

const WARM_SLICE_MS = 4
/** Maximum time a query spends on updating when there is an older index to answer from. */
const QUERY_SLICE_MS = 2
/** Maximum time that the first query spends on updating: enough for the vectors of a small catalog. */
const FIRST_SLICE_MS = 10
/**
 * Maximum time for updating if tools were just added, or if keywords find nothing: only vectors may find the right tool.
 */
const MAX_WAIT_MS = 2_000
/** Minimum time between saves, because each save writes the whole index. */
const SAVE_EVERY_MS = 60_000
/** In a smaller catalog the first query is fast enough without practice queries. */
const PRACTICE_TOOLS = 500
const PRACTICE = [
  'read the content of a file',
  'list open issues and pull requests',
  'send a message to somebody',
  'search the web for news about a company',
  'create an event in the calendar',
  'query rows of a table by name',
] as const
const QUERIES_CAP = 20
/** Maximum number of results of each of several queries. */
const RESULTS_PER_QUERY = 3
const TEXT_CAP = 1 << 16

export function createToolSearch(options: ToolSearchOptions = {}): ToolSearch {
  const { log = silentLog, fusion = 'learned', semantic } = options
  const { store, table, atlas } = options
  const onIndexed: CorpusOptions['onIndexed'] = semantic && ((documents) => semantic.sync(documents))
  const corpus = createCorpus(omitUndefined({ log, store, table, atlas, onIndexed }))
  const { findCandidates, respell } = createCandidateFinder(corpus, semantic)
  let syncedVersion: number | undefined
  let work: Iterator<void> | undefined
  let isWarming = false
  let hasPractised = false
  let savedAt = Number.NEGATIVE_INFINITY

  /** Works until finished or until the time slice is used up. @returns whether it is finished */
  function workFor(sliceMs: number): boolean {
    const current = work
    if (!current) return true
    const started = monotonicMs()
    while (!current.next().done) if (monotonicMs() - started >= sliceMs) return false
    work = undefined
    return true
  }

  async function warm(): Promise<void> {
    // The saved index is loaded after the first step. Practise on it before the rest, because a client may query
    // meanwhile.
    if (!corpus.usable()) workFor(0)
    await practise()
    while (!workFor(WARM_SLICE_MS)) await setImmediate()
    await practise()
    if (monotonicMs() - savedAt < SAVE_EVERY_MS || !corpus.save()) return
    savedAt = monotonicMs()
  }

  /**
   * Runs practice queries while no client waits, because the first queries of a process take ten times as long as
   * later ones.
   */
  async function practise(): Promise<void> {
    if (hasPractised || corpus.lexical.size < PRACTICE_TOOLS) return
    hasPractised = true
    for (const query of [...PRACTICE, ...PRACTICE, ...PRACTICE]) {
      await setImmediate()
      findCandidates(query, { limit: 5, visible: () => true }, undefined)
    }
  }

  /**
   * If there is an older index to answer from, updating continues in the background. Otherwise keywords come first
   * and vectors when they are ready.
   */
  async function prepare(): Promise<void> {
    const isFirst = !corpus.usable()
    while (!corpus.usable()) {
      if (workFor(WARM_SLICE_MS)) return
      await setImmediate()
    }
    if (workFor(isFirst ? FIRST_SLICE_MS : QUERY_SLICE_MS)) return
    // A client that adds a server searches for its tools at once; their vectors may come later.
    await workUntil(() => corpus.current())
    if (!work || isWarming) return
    isWarming = true
    warm()
      .catch((error: unknown) => log.error('indexing failed', { error }))
      .finally(() => {
        isWarming = false
      })
  }

  async function searchOne(query: string, queryOptions: ToolQueryOptions): Promise<ToolAnswer> {
    const english = options.translate?.(query)
    const model = queryOptions.ranker !== 'lexical' && semantic?.status.state === 'ready' ? semantic : undefined
    const isEncoder = model?.fusion !== undefined
    // The encoder reads only English, and does not know misspelled words. A custom model gets the query unchanged. The
    // search for words takes much less time than the encoder.
    const modelQuery = isEncoder ? (english ?? respell(query, queryOptions)) : query
    const modelVector = await model?.embedQuery(modelQuery)
    const found = findCandidates(english ? `${english} ${query}` : query, queryOptions, modelVector)
    const ranked = rankCandidates(found, queryOptions.ranker, fusion)
    const answer = createAnswer(query, found, ranked, queryOptions, fusion, corpus.idOf)
    return corpus.current() ? answer : { ...answer, behind: true }
  }

  /** Also searches for each clause of a long prompt that names no tool. */
  async function searchPrompt(query: string, queryOptions: ToolQueryOptions): Promise<ToolAnswer> {
    const answer = await searchOne(query, queryOptions)
    if (namedIdsOf(answer).length > 0) return answer
    const clauses = await Promise.all(clausesOf(query).map((clause) => searchOne(clause, queryOptions)))
    return addClauses(answer, clauses, queryOptions.limit)
  }

  async function workUntil(isDone: () => boolean): Promise<void> {
    for (const deadline = monotonicMs() + MAX_WAIT_MS; !isDone() && monotonicMs() < deadline; await setImmediate())
      workFor(WARM_SLICE_MS)
  }

  async function searchAll(queries: readonly string[], queryOptions: ToolQueryOptions): Promise<ToolAnswer> {
    if (queries.length <= 1) return searchPrompt(queries[0] ?? '', queryOptions)
    const limit = Math.min(queryOptions.limit, RESULTS_PER_QUERY)
    const answers = await Promise.all(queries.map((query) => searchOne(query, { ...queryOptions, limit })))
    return joinAnswers(answers, limit)
  }

  return {
    sync(sources, version) {
      if (version === syncedVersion) return
      syncedVersion = version
      work = corpus.follow([...sources])
    },
    warm,
    async query(query, queryOptions) {
      if (queryOptions.limit < 1) return { hits: [], ranking: 'keyword' }
      await prepare()
      const lines = query.slice(0, TEXT_CAP).split(/\r?\n/)
      const queries = [...new Set(lines.map((line) => line.trim()).filter(Boolean))].slice(0, QUERIES_CAP)
      const answer = await searchAll(queries, queryOptions)
      const isFinal = !answer.unanswered || !work
      if (!isFinal) await workUntil(() => work === undefined)
      const { hits, ...rest } = isFinal ? answer : await searchAll(queries, queryOptions)
      const { safeSiblings } = queryOptions
      if (!safeSiblings) return { hits, ...rest }
      return { hits: withSafeSiblings(hits, ({ query: line = 0 }) => queries[line] ?? '', safeSiblings), ...rest }
    },
    get status() {
      const hasCustomModel = semantic?.status.state === 'ready' && !semantic.fusion
      const isModelReady = corpus.table() !== undefined || semantic?.status.state === 'ready'
      return {
        ranking: rankingOf(hasCustomModel, isModelReady),
        embedded: corpus.model,
        ...(semantic && { semantic: semantic.status }),
      }
    },
    async close() {
      corpus.save()
      await semantic?.close()
    },
  }
}
