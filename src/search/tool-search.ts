import { setImmediate } from 'node:timers/promises'
import { monotonicMs } from '../core/clock.ts'
import { type Log, silentLog } from '../core/log.ts'
import type { Atlas } from './atlas.ts'
import { clausesOf } from './clauses.ts'
import type { EmbeddingTable } from './embedding-table.ts'
import {
  type Features,
  type Fusion,
  type FusionWeights,
  rankScore,
  reciprocalRank,
  relevanceOf,
  shownRelevanceOf,
  sourceScore,
  usageLift,
} from './fuse-rankings.ts'
import { createLateInteraction } from './late-interaction.ts'
import type { LexicalIndex, LexicalMatches } from './lexical-index.ts'
import type { QueryTranslator } from './query-translator.ts'
import { withSafeSiblings } from './safe-siblings.ts'
import { createCorpus, type ModelState } from './search-corpus.ts'
import type { SearchSource } from './search-document.ts'
import type { SemanticLane, SemanticStatus } from './semantic-lane.ts'
import { isForeign, stemOf } from './tokenize.ts'
import type { UsedWith } from './used-with.ts'
import { piecesOf } from './word-pieces.ts'
import type { WritingState } from './written-requests.ts'

/** The lanes that a ranking came from. */
export type Ranking = 'keyword' | 'hybrid' | 'semantic'

/** One search result. */
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
  /** The features of each lane; only with `explain`. */
  readonly why?: Features & {
    readonly calls: number
    readonly exactName: boolean
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
  readonly embedded: ModelState
  /** State of the optional model, if one is configured. */
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
  /** The embedded model, opened on first use; undefined for keyword search only. */
  readonly table?: () => EmbeddingTable | undefined
  /** Known tools of public servers, opened on first use. */
  readonly atlas?: () => Atlas | undefined
  /** Translates queries in other languages. Default: they are searched as they are. */
  readonly translate?: QueryTranslator
  /** Storage for the index between runs. */
  readonly store?: BytesStore
  /** A second model beside the embedded one. */
  readonly semantic?: SemanticLane
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
  /** Saves the index and stops the optional model. */
  close(): Promise<void>
}

/** Number of candidates per lane for which all features are computed. Forty give no better results than sixteen. */
const CANDIDATES = 16
const WARM_SLICE_MS = 4
/** Maximum time a query spends on updating when there is an older index to answer from. */
const QUERY_SLICE_MS = 2
/** The same for the first query: vectors of a small catalog are ready within this time. */
const FIRST_SLICE_MS = 10
/**
 * The same when tools were just added, or when keywords find nothing: the right tool may only be found by its vector.
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
/** Maximum number of results of each of several queries, and of all together. */
const RESULTS_PER_QUERY = 3
const RESULTS_CAP = 20
/** Maximum number of named tools returned, whatever the limit. */
const NAMED_CAP = 20
const TEXT_CAP = 1 << 16
const HIGHEST = 0.99
/** The best tool of a clause counts from this relevance on. */
const MIN_CLAUSE_SCORE = 0.5
/**
 * `brief`: beside a hit of this relevance, tools whose ranking score is lower by more than `most` are left out. Learned on
 * the development sets and the everyday requests: no query loses its only right tool, and 1 to 2.4 of 5 tools remain.
 */
const BRIEF = { sure: 0.95, most: 4 } as const

/** The candidates of a query, and what is needed to order them. */
interface Candidates {
  readonly candidates: readonly Candidate[]
  readonly table: EmbeddingTable | undefined
  readonly matches: LexicalMatches
  /** Undefined if only keywords are searched. */
  readonly weights: FusionWeights | undefined
  /** True if a model without learned weights ranked them too. */
  readonly foreign: boolean
}

interface Candidate {
  readonly slot: number
  readonly features: Features
  readonly exactName: boolean
  readonly calls: number
  readonly external: number | undefined
}

export function createToolSearch(options: ToolSearchOptions = {}): ToolSearch {
  const { log = silentLog, fusion = 'learned', semantic } = options
  const corpus = createCorpus({
    log,
    ...pick(options, 'store', 'table', 'atlas'),
    ...(semantic && { onIndexed: (documents) => semantic.sync(documents) }),
  })
  let lateInteraction:
    | (ReturnType<typeof createLateInteraction> & { readonly table: EmbeddingTable; readonly index: LexicalIndex })
    | undefined
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

  function coverageOf(
    table: EmbeddingTable,
    query: string,
    slots: readonly number[],
    rarityOf: LexicalMatches['rarityOf'],
  ) {
    const index = corpus.lexical
    if (lateInteraction?.table !== table || lateInteraction.index !== index)
      lateInteraction = { table, index, ...createLateInteraction(table, index) }
    return lateInteraction.cover(query, slots, rarityOf)
  }

  const slotsOf = (ids: Iterable<string>): number[] => [...ids].flatMap((id) => corpus.slotOf(id) ?? [])

  function findCandidates(
    query: string,
    queryOptions: ToolQueryOptions,
    external: Float32Array | undefined,
  ): Candidates {
    const accept = (slot: number): boolean => queryOptions.visible(corpus.idOf(slot))
    const count = Math.max(CANDIDATES, queryOptions.limit)
    const matches = corpus.lexical.search(query, {
      limit: count,
      accept,
      uncounted: slotsOf(queryOptions.hidden?.() ?? []),
    })
    const table = queryOptions.ranker === 'lexical' ? undefined : corpus.table()
    const correctedQuery = table ? correctQuery(query, matches.corrections, table) : query
    const vector = table?.query(correctedQuery)
    const slots = new Set<number>()
    const exactSlots = new Set<number>()
    for (const { slot, exactName } of matches.hits) {
      if (queryOptions.ranker !== 'vector' || exactName) slots.add(slot)
      if (exactName) exactSlots.add(slot)
    }
    if (vector) for (const { slot } of corpus.vectors.search(vector, count, accept)) slots.add(slot)
    const vectors = external && semantic?.index
    for (const { slot } of vectors ? vectors.search(external, count, accept) : []) slots.add(slot)
    const slotList = [...slots]
    // Tools that were just added may have no vector yet; then none is compared by it.
    const externals =
      vectors && slotList.every((slot) => vectors.has(slot)) ? vectors.cosines(slotList, external) : undefined
    const encoder = externals && semantic?.fusion
    const cosines = vector ? corpus.vectors.cosines(slotList, vector) : undefined
    const coverage =
      table && queryOptions.ranker !== 'vector'
        ? coverageOf(table, correctedQuery, slotList, matches.rarityOf)
        : undefined
    const queryStems = new Set(piecesOf(correctedQuery).map(stemOf))
    const rarest = matches.rarityOf('')
    const ownerNamed = (id: string): number =>
      Math.max(0, ...ownerStemsOf(id).map((stem) => (queryStems.has(stem) ? matches.rarityOf(stem) / rarest : 0)))
    let best = 0
    for (const slot of slotList) if (!exactSlots.has(slot)) best = Math.max(best, matches.scoreOf(slot))
    const candidates = slotList.map((slot, at): Candidate => {
      const lexical = queryOptions.ranker === 'vector' ? 0 : matches.scoreOf(slot)
      return {
        slot,
        features: {
          lexical,
          lexicalShare: best > 0 ? Math.min(1, lexical / best) : 0,
          cosine: cosines?.[at] ?? 0,
          covered: coverage?.query[at] ?? 0,
          nameCovered: coverage?.name[at] ?? 0,
          encoded: (encoder && externals?.[at]) ?? 0,
          known: corpus.isKnown(slot) ? 1 : 0,
          ownerNamed: ownerNamed(corpus.idOf(slot)),
        },
        exactName: exactSlots.has(slot),
        calls: queryOptions.usage?.(corpus.idOf(slot)) ?? 0,
        external: encoder ? undefined : externals?.[at],
      }
    })
    return {
      candidates,
      table,
      matches,
      weights: encoder ?? table?.settings.fusion,
      foreign: externals !== undefined && !encoder,
    }
  }

  async function searchOne(query: string, queryOptions: ToolQueryOptions): Promise<ToolAnswer> {
    const english = options.translate?.(query)
    const external =
      semantic && queryOptions.ranker !== 'lexical' && semantic.status.state === 'ready'
        ? await semantic.embedQuery((semantic.fusion && english) ?? query)
        : undefined
    const found = findCandidates(english ? `${english} ${query}` : query, queryOptions, external)
    const { candidates, table, matches, weights, foreign } = found
    const scores = orderScores(found, queryOptions, fusion)
    const ordered = candidates
      .map((candidate, at) => ({ candidate, score: scores[at] as number }))
      .filter(({ candidate, score }) => candidate.exactName || (score > Number.NEGATIVE_INFINITY && isMatch(candidate)))
      .sort(
        (a, b) =>
          Number(b.candidate.exactName) - Number(a.candidate.exactName) ||
          b.score - a.score ||
          a.candidate.slot - b.candidate.slot,
      )
    const ranking: Ranking = foreign ? 'semantic' : weights ? 'hybrid' : 'keyword'
    const relevances = ordered.map(({ candidate }) => relevanceFor(candidate, weights, queryOptions))
    const named = ordered.filter(({ candidate }) => candidate.exactName)
    const maxHits = Math.max(queryOptions.limit, Math.min(NAMED_CAP, named.length))
    const best = Math.max(0, ...relevances.slice(0, queryOptions.limit))
    // The original formula has its own threshold, and this model cannot judge what another model finds.
    const isJudged = weights && queryOptions.ranker !== 'vector' && fusion !== 'source' && !foreign
    const minRelevance = isJudged ? minRelevanceFor(query, weights) : 0
    const unlikely = ordered.length === 0 || best < minRelevance || (isJudged && isUnknown(query, matches, table))
    let ceiling = unlikely ? minRelevance : 1
    const unnamed = ordered.filter(({ candidate }) => !candidate.exactName).map(({ score }) => score)
    const [first = 0, second = Number.NEGATIVE_INFINITY] = unnamed
    const topHits = ordered.slice(0, maxHits).map(({ candidate, score: fused }, at): SearchHit => {
      // Of unlikely tools, one can be far ahead of the others.
      const shown =
        isJudged && !unlikely && !candidate.exactName && queryOptions.ranker !== 'lexical' ? weights : undefined
      const margin = fused === first ? fused - second : fused - first
      ceiling = Math.min(
        ceiling,
        shown ? Math.min(HIGHEST, shownRelevanceOf(candidate.features, margin, shown)) : (relevances[at] as number),
      )
      const { slot } = candidate
      const matched = matches.termsOf(slot)
      return {
        id: corpus.idOf(slot),
        score: ceiling,
        matched,
        ...(queryOptions.explain ? { why: whyOf(candidate, fused) } : {}),
      }
    })
    const isSure = queryOptions.brief && isJudged && named.length === 0 && (topHits[0]?.score ?? 0) >= BRIEF.sure
    const hits = isSure ? topHits.filter((_, at) => first - (ordered[at]?.score ?? 0) <= BRIEF.most) : topHits
    const more = named.slice(maxHits).map(({ candidate }) => corpus.idOf(candidate.slot))
    return {
      hits,
      ranking,
      ...(unlikely && { unanswered: [query] }),
      ...(more.length > 0 && { more }),
      ...(!corpus.current() && { behind: true }),
    }
  }

  /**
   * Also searches for each clause of a long prompt. The best tool of a clause comes before those of the whole if it is
   * likely right.
   */
  async function searchPrompt(query: string, queryOptions: ToolQueryOptions): Promise<ToolAnswer> {
    const promptAnswer = await searchOne(query, queryOptions)
    const clauses = namedIdsOf(promptAnswer).length > 0 ? [] : clausesOf(query)
    const clauseAnswers = await Promise.all(clauses.map((clause) => searchOne(clause, queryOptions)))
    const sureHits = clauseAnswers
      .flatMap(({ hits: [best], unanswered }) => (best && best.score >= MIN_CLAUSE_SCORE && !unanswered ? [best] : []))
      .sort((a, b) => b.score - a.score)
    if (sureHits.length === 0) return promptAnswer
    const byId = new Map<string, SearchHit>()
    for (const hit of [...sureHits, ...promptAnswer.hits]) if (!byId.has(hit.id)) byId.set(hit.id, hit)
    let ceiling = 1
    const hits = [...byId.values()].slice(0, queryOptions.limit).map((hit) => {
      ceiling = Math.min(ceiling, hit.score)
      return { ...hit, score: ceiling }
    })
    const { unanswered: _, ...rest } = promptAnswer
    return { ...rest, hits }
  }

  async function workUntil(isDone: () => boolean): Promise<void> {
    for (const deadline = monotonicMs() + MAX_WAIT_MS; !isDone() && monotonicMs() < deadline; await setImmediate())
      workFor(WARM_SLICE_MS)
  }

  async function searchAll(queries: readonly string[], queryOptions: ToolQueryOptions): Promise<ToolAnswer> {
    if (queries.length <= 1) return searchPrompt(queries[0] ?? '', queryOptions)
    const limitPerQuery = Math.min(queryOptions.limit, RESULTS_PER_QUERY)
    const minLimit = Math.min(limitPerQuery * queries.length, RESULTS_CAP)
    const rawAnswers = await Promise.all(
      queries.map((query) => searchOne(query, { ...queryOptions, limit: limitPerQuery })),
    )
    const answers = rawAnswers.map((answer, query) => {
      // A query that is a name needs no other tools.
      const isName = namedIdsOf(answer).length > 0
      const hits = answer.hits.filter(({ score }) => !isName || score === 1)
      return { ...answer, hits: hits.map((hit) => ({ ...hit, query })) }
    })
    const named = new Set(answers.flatMap((answer) => [...namedIdsOf(answer), ...(answer.more ?? [])]))
    const others = answers.filter((answer) => namedIdsOf(answer).length === 0)
    const limit = Math.max(minLimit, Math.min(NAMED_CAP, named.size + others.length))
    const hits = interleave(answers, limit)
    const more = [...named].filter((id) => !hits.some((hit) => hit.id === id))
    const unanswered = answers.flatMap((answer) => answer.unanswered ?? [])
    return {
      hits,
      ranking: answers[0]?.ranking ?? 'keyword',
      ...(unanswered.length > 0 && { unanswered }),
      ...(more.length > 0 && { more }),
      ...(answers[0]?.behind && { behind: true }),
    }
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
      const foreign = semantic?.status.state === 'ready' && !semantic.fusion
      const isModelReady = corpus.table() !== undefined || semantic?.status.state === 'ready'
      const ranking: Ranking = foreign ? 'semantic' : isModelReady ? 'hybrid' : 'keyword'
      return { ranking, embedded: corpus.model, ...(semantic && { semantic: semantic.status }) }
    },
    async close() {
      corpus.save()
      await semantic?.close()
    },
  }
}

/** The stems of the name of a tool's server or module, which begins its id. */
function ownerStemsOf(id: string): string[] {
  const [, owner = ''] = /^(?:mcp_)?(.+?)(?:\.|::|\/)/.exec(id) ?? []
  return piecesOf(owner).map(stemOf)
}

/** The query with corrections for words that neither the catalog nor the model knows. */
function correctQuery(query: string, corrections: ReadonlyMap<string, string>, table: EmbeddingTable): string {
  let corrected = query
  for (const [word, other] of corrections)
    if (!table.knows(word)) corrected = corrected.toLowerCase().replaceAll(word, other)
  return corrected
}

/** The minimum relevance of the best tool. A query in another language matches no keywords and is less similar to everything. */
function minRelevanceFor(query: string, { relevance: { least = 0, leastForeign = 0 } }: FusionWeights): number {
  return isForeign(query) ? leastForeign : least
}

/** True for a query of unknown words, which is similar to something by chance. */
const isUnknown = (query: string, { hits }: LexicalMatches, table: EmbeddingTable | undefined): boolean =>
  hits.length === 0 && table !== undefined && !table.knows(query)

function relevanceFor(candidate: Candidate, weights: FusionWeights | undefined, { ranker }: ToolQueryOptions): number {
  const { features, exactName, external } = candidate
  if (exactName) return 1
  if (ranker === 'vector') return Math.min(HIGHEST, Math.max(0, external ?? features.cosine))
  return Math.min(HIGHEST, weights ? relevanceOf(features, weights) : features.lexical)
}

const isMatch = ({ features: { lexical, cosine, covered, encoded }, external = 0 }: Candidate): boolean =>
  lexical > 0 || cosine > 0 || covered > 0 || encoded > 0 || external > 0

/** Ranking scores, higher first; minus infinity for a tool that does not match. */
function orderScores(
  { candidates, weights, foreign }: Candidates,
  { ranker }: ToolQueryOptions,
  fusion: Fusion,
): number[] {
  if (!weights && !foreign)
    return candidates.map(({ features: { lexical }, calls }) => lexical * (1 + usageLift(calls) / 3))
  if (ranker === 'vector') return candidates.map((one) => one.external ?? one.features.cosine)
  if (fusion === 'source')
    return candidates.map(({ features, external: other, calls }) => {
      const score = sourceScore(other === undefined ? features : { ...features, cosine: other }, calls, true)
      return score > 0 ? score : Number.NEGATIVE_INFINITY
    })
  const learned = candidates.map(({ features }) => (weights ? rankScore(features, weights) : features.lexical))
  if (fusion === 'learned' && !foreign)
    return candidates.map(({ calls }, at) => (learned[at] as number) + usageLift(calls))
  const words = candidates.map(({ features: { lexical } }) => (lexical > 0 ? lexical : undefined))
  const cosines = weights && candidates.map(({ features }) => features.cosine)
  const externals = foreign ? candidates.map((one) => one.external) : undefined
  const rankings = fusion === 'learned' ? [learned, externals] : [words, cosines, externals]
  const ranks = rankings.flatMap((ranking) => (ranking ? [ranksOf(ranking)] : []))
  return candidates.map(({ calls }, at) => reciprocalRank(ranks.map((lane) => lane[at])) * (1 + usageLift(calls) / 3))
}

/** The rank of each value, from 0 for the highest; equal values share a rank, missing values have none. */
function ranksOf(values: readonly (number | undefined)[]): (number | undefined)[] {
  const order = values
    .flatMap((value, at) => (value === undefined ? [] : [{ value, at }]))
    .sort((a, b) => b.value - a.value)
  const ranks = new Array<number | undefined>(values.length)
  order.forEach(({ value, at }, place) => {
    const before = order[place - 1]
    ranks[at] = before?.value === value ? ranks[before.at] : place
  })
  return ranks
}

function whyOf({ features, exactName, calls, external }: Candidate, score: number): NonNullable<SearchHit['why']> {
  // A tool that the query names comes first, whatever its score.
  const fused = Number.isFinite(score) ? score : 0
  return { ...features, exactName, calls, ...(external === undefined ? {} : { external }), fused }
}

/** A score of 1 means that the query names the tool. */
const namedIdsOf = ({ hits }: ToolAnswer): string[] => hits.filter(({ score }) => score === 1).map(({ id }) => id)

/**
 * The best of each answer, then the second of each, and so on, with room for all named tools. An unlikely answer
 * contributes only its best tool.
 */
function interleave(answers: readonly ToolAnswer[], limit: number): SearchHit[] {
  const lists = answers.map(({ hits, unanswered }) => (unanswered ? hits.slice(0, 1) : hits))
  const named = lists.flatMap((hits) => hits.filter(({ score }) => score === 1))
  const ranks = Math.max(...lists.map((hits) => hits.length))
  const inOrder = Array.from({ length: ranks }, (_, rank) => lists.flatMap((hits) => hits[rank] ?? [])).flat()
  const chosenIds = new Set<string>()
  for (const { id } of [...named, ...inOrder]) if (chosenIds.size < limit) chosenIds.add(id)
  return inOrder.filter(({ id }) => chosenIds.delete(id))
}

function pick<T extends object, K extends keyof T>(from: T, ...keys: K[]): Pick<T, K> {
  const picked = {} as Pick<T, K>
  for (const key of keys) if (from[key] !== undefined) picked[key] = from[key]
  return picked
}
