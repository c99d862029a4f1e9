import { setImmediate } from 'node:timers/promises'
import { monotonicMs } from '../core/clock.ts'
import { type Log, silentLog } from '../core/log.ts'
import { createCorpus, type ModelState } from './corpus.ts'
import type { SearchSource } from './document.ts'
import { type Features, type Fusion, rankScore, reciprocalRank, relevanceOf, sourceScore, usageLift } from './fuse.ts'
import { createLateInteraction } from './late.ts'
import type { LexicalIndex, LexicalMatches } from './lexical.ts'
import type { SemanticLane, SemanticStatus } from './semantic.ts'
import type { EmbeddingTable } from './table.ts'
import { isForeign } from './tokenize.ts'

export type { SearchSource } from './document.ts'

/** Which lanes a ranking came from. */
export type Ranking = 'keyword' | 'hybrid' | 'semantic'

/** One answer of search, best first. */
export interface SearchHit {
  readonly id: string
  /** 0 to 1: how likely the tool answers the query; 1 only for a tool the query names. Never above that of its query's better hits. */
  readonly score: number
  /** The query's words that matched. */
  readonly matched: readonly string[]
  /** What each lane said; asked for with `explain`. */
  readonly why?: Features & { readonly calls: number; readonly exactName: boolean; readonly external?: number }
}

export interface ToolQueryOptions {
  readonly limit: number
  /** The caller's view: only these ids are answered, counted or told apart. */
  readonly visible: (id: string) => boolean
  /** How often a tool was called; settles near ties. */
  readonly usage?: (id: string) => number
  /** One lane alone; default all there are. */
  readonly lanes?: 'hybrid' | 'lexical' | 'vector'
  /** Adds `why` to every hit. */
  readonly explain?: boolean
  /** Answers the best even when nothing is likely to be right. */
  readonly keepUnlikely?: boolean
}

export interface ToolAnswer {
  readonly hits: readonly SearchHit[]
  readonly ranking: Ranking
  /** The queries that no tool is likely to answer. */
  readonly unanswered?: readonly string[]
  /** Tools that just came are not searched yet. */
  readonly behind?: true
  /** Tools that the query names and that have no room in the answer. */
  readonly more?: readonly string[]
}

/** What search can do now. */
export interface SearchStatus {
  readonly ranking: Ranking
  /** The embedded model. */
  readonly embedded: ModelState
  /** The optional one, where there is one. */
  readonly semantic?: SemanticStatus
}

/** Bytes kept under a name, written whole or not at all. */
export interface BytesStore {
  get(name: string): Uint8Array | undefined
  set(name: string, bytes: Uint8Array): void
}

export interface ToolSearchOptions {
  readonly log?: Log
  /** The embedded model, opened at the first need; undefined for keywords alone. */
  readonly table?: () => EmbeddingTable | undefined
  /** Where the index is kept between runs. */
  readonly store?: BytesStore
  /** Another model beside the embedded one. */
  readonly semantic?: SemanticLane
  readonly fusion?: Fusion
}

/** Which tools match a query. Follows the catalogue, answers from memory. */
export interface ToolSearch {
  /**
   * Says what tools exist now. Cheap: the work is done by the first query after it, and only for tools whose text changed.
   * @param version the catalogue's; the same version twice is ignored
   */
  sync(sources: Iterable<SearchSource>, version: number): void
  /** Does that work ahead of the first query, a few milliseconds at a time, and keeps the result in the store. */
  warm(): Promise<void>
  /**
   * The best matches, best first; empty when nothing is relevant. Several queries, one a line, share the answer evenly,
   * and it has room for one tool each, whatever `limit` says.
   * Never throws on any query.
   */
  query(query: string, options: ToolQueryOptions): Promise<ToolAnswer>
  readonly status: SearchStatus
  /** Keeps the index and ends the optional model. */
  close(): Promise<void>
}

/** Candidates of each lane that all features are worked out for. Forty find nothing that sixteen do not. */
const CANDIDATES = 16
const WARM_SLICE_MS = 4
/** What a query may spend on catching up when there is an older index to answer from. */
const QUERY_SLICE_MS = 2
/** The same for the very first one: vectors of a small catalogue are made by then. */
const FIRST_SLICE_MS = 10
/** The same where tools just came, and where nothing is found by words alone: the tool may only be found by its vector. */
const LONGEST_WAIT_MS = 2_000
/** Every save writes the whole index. */
const SAVE_EVERY_MS = 60_000
/** In a small catalogue the first query is fast enough. */
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
/** Tools that a query names are all answered, whatever limit it has, up to so many. */
const NAMED_CAP = 20
const TEXT_CAP = 1 << 16
const HIGHEST = 0.99

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
    ...pick(options, 'store', 'table'),
    ...(semantic && { onIndexed: (documents) => semantic.sync(documents) }),
  })
  let late:
    | (ReturnType<typeof createLateInteraction> & { readonly table: EmbeddingTable; readonly index: LexicalIndex })
    | undefined
  let syncedVersion: number | undefined
  let work: Iterator<void> | undefined
  let behind = false
  let practised = false
  let savedAt = Number.NEGATIVE_INFINITY

  /** Works until done or the slice is used up; true when done. */
  function catchUp(sliceMs: number): boolean {
    const current = work
    if (!current) return true
    const started = monotonicMs()
    while (!current.next().done) if (monotonicMs() - started >= sliceMs) return false
    work = undefined
    return true
  }

  async function warm(): Promise<void> {
    // What was kept is there after the first step: practise on it before the rest, because a client may ask meanwhile.
    if (!corpus.usable()) catchUp(0)
    await practise()
    while (!catchUp(WARM_SLICE_MS)) await setImmediate()
    await practise()
    if (monotonicMs() - savedAt < SAVE_EVERY_MS || !corpus.save()) return
    savedAt = monotonicMs()
  }

  /** The first queries of a process take ten times as long as later ones: code is compiled, memory touched. Not while a client waits. */
  async function practise(): Promise<void> {
    if (practised || corpus.lexical.size < PRACTICE_TOOLS) return
    practised = true
    for (const query of [...PRACTICE, ...PRACTICE, ...PRACTICE]) {
      await setImmediate()
      candidatesOf(query, { limit: 5, visible: () => true }, undefined)
    }
  }

  /** Something older to answer from: the work goes on in the background. Else keywords first, vectors when they are there. */
  async function prepare(): Promise<void> {
    const first = !corpus.usable()
    while (!corpus.usable()) {
      if (catchUp(WARM_SLICE_MS)) return
      await setImmediate()
    }
    if (catchUp(first ? FIRST_SLICE_MS : QUERY_SLICE_MS)) return
    // Whoever adds a server asks for its tools at once. Their vectors may come later.
    await workUntil(() => corpus.current())
    if (!work || behind) return
    behind = true
    warm()
      .catch((error: unknown) => log.error('indexing failed', { error }))
      .finally(() => {
        behind = false
      })
  }

  function coverOf(table: EmbeddingTable, query: string, slots: readonly number[], accept: (slot: number) => boolean) {
    const index = corpus.lexical
    if (late?.table !== table || late.index !== index) late = { table, index, ...createLateInteraction(table, index) }
    return late.cover(query, slots, accept)
  }

  function candidatesOf(
    query: string,
    asked: ToolQueryOptions,
    external: Float32Array | undefined,
  ): { candidates: Candidate[]; table: EmbeddingTable | undefined; matches: LexicalMatches } {
    const accept = (slot: number): boolean => asked.visible(corpus.idOf(slot))
    const count = Math.max(CANDIDATES, asked.limit)
    const matches = corpus.lexical.search(query, { limit: count, accept })
    const table = asked.lanes === 'lexical' ? undefined : corpus.table()
    const meant = table ? asMeant(query, matches.corrections, table) : query
    const vector = table?.query(meant)
    const slots = new Set<number>()
    const exact = new Set<number>()
    for (const { slot, exactName } of matches.hits) {
      if (asked.lanes !== 'vector' || exactName) slots.add(slot)
      if (exactName) exact.add(slot)
    }
    if (vector) for (const { slot } of corpus.vectors.search(vector, count, accept)) slots.add(slot)
    const near = external && semantic ? semantic.index?.search(external, count, accept) : undefined
    for (const { slot } of near ?? []) slots.add(slot)
    const list = [...slots]
    const cosines = vector ? corpus.vectors.cosines(list, vector) : undefined
    const cover = table && asked.lanes !== 'vector' ? coverOf(table, meant, list, accept) : undefined
    const externals = external && semantic ? semantic.index?.cosines(list, external) : undefined
    let best = 0
    for (const slot of list) if (!exact.has(slot)) best = Math.max(best, matches.scoreOf(slot))
    const candidates = list.map((slot, at): Candidate => {
      const lexical = asked.lanes === 'vector' ? 0 : matches.scoreOf(slot)
      return {
        slot,
        features: {
          lexical,
          lexicalShare: best > 0 ? Math.min(1, lexical / best) : 0,
          cosine: cosines?.[at] ?? 0,
          covered: cover?.query[at] ?? 0,
          nameCovered: cover?.name[at] ?? 0,
        },
        exactName: exact.has(slot),
        calls: asked.usage?.(corpus.idOf(slot)) ?? 0,
        external: externals?.[at],
      }
    })
    return { candidates, table, matches }
  }

  async function one(query: string, asked: ToolQueryOptions): Promise<ToolAnswer> {
    const external =
      semantic && asked.lanes !== 'lexical' && semantic.status.state === 'ready'
        ? await semantic.embedQuery(query)
        : undefined
    const { candidates, table, matches } = candidatesOf(query, asked, external)
    const scores = orderScores(candidates, table, external !== undefined, asked, fusion)
    const ordered = candidates
      .map((candidate, at) => ({ candidate, score: scores[at] as number }))
      .filter(({ candidate, score }) => candidate.exactName || (score > Number.NEGATIVE_INFINITY && isMatch(candidate)))
      .sort(
        (a, b) =>
          Number(b.candidate.exactName) - Number(a.candidate.exactName) ||
          b.score - a.score ||
          a.candidate.slot - b.candidate.slot,
      )
    const ranking: Ranking = external ? 'semantic' : table ? 'hybrid' : 'keyword'
    const relevances = ordered.map(({ candidate }) => relevance(candidate, table, asked))
    const named = ordered.filter(({ candidate }) => candidate.exactName)
    const room = Math.max(asked.limit, Math.min(NAMED_CAP, named.length))
    const best = Math.max(0, ...relevances.slice(0, asked.limit))
    // The formula of the source design has its own bar, and what another model finds near is not judged by this one.
    const judged = table && asked.lanes !== 'vector' && fusion !== 'source' && !external
    const unlikely = ordered.length === 0 || (judged && best < leastFor(query, matches, table))
    if (unlikely && !asked.keepUnlikely) return { hits: [], ranking, unanswered: [query] }
    let ceiling = 1
    const hits = ordered.slice(0, room).map(({ candidate }, at): SearchHit => {
      ceiling = Math.min(ceiling, relevances[at] as number)
      const { slot } = candidate
      const matched = matches.termsOf(slot)
      return { id: corpus.idOf(slot), score: ceiling, matched, ...(asked.explain ? { why: whyOf(candidate) } : {}) }
    })
    const more = named.slice(room).map(({ candidate }) => corpus.idOf(candidate.slot))
    return {
      hits,
      ranking,
      ...(unlikely && { unanswered: [query] }),
      ...(more.length > 0 && { more }),
      ...(!corpus.current() && { behind: true }),
    }
  }

  async function workUntil(done: () => boolean): Promise<void> {
    for (const until = monotonicMs() + LONGEST_WAIT_MS; !done() && monotonicMs() < until; await setImmediate())
      catchUp(WARM_SLICE_MS)
  }

  async function all(queries: readonly string[], asked: ToolQueryOptions): Promise<ToolAnswer> {
    if (queries.length <= 1) return one(queries[0] ?? '', asked)
    // Nobody asks something to get no answer to it.
    const least = Math.max(asked.limit, queries.length)
    const answers = await Promise.all(queries.map((each) => one(each, { ...asked, limit: least })))
    const named = new Set(answers.flatMap((answer) => [...namedIn(answer), ...(answer.more ?? [])]))
    const others = answers.filter((answer) => namedIn(answer).length === 0)
    const limit = Math.max(least, Math.min(NAMED_CAP, named.size + others.length))
    const hits = inTurn(answers, limit)
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
    async query(query, asked) {
      if (asked.limit < 1) return { hits: [], ranking: 'keyword' }
      await prepare()
      const lines = query.slice(0, TEXT_CAP).split(/\r?\n/)
      const queries = [...new Set(lines.map((line) => line.trim()).filter(Boolean))].slice(0, QUERIES_CAP)
      const answer = await all(queries, asked)
      if (!answer.unanswered || !work) return answer
      await workUntil(() => work === undefined)
      return all(queries, asked)
    },
    get status() {
      const ranking: Ranking = semantic?.status.state === 'ready' ? 'semantic' : corpus.table() ? 'hybrid' : 'keyword'
      return { ranking, embedded: corpus.model, ...(semantic && { semantic: semantic.status }) }
    },
    async close() {
      corpus.save()
      await semantic?.close()
    },
  }
}

/** The query with words that neither the catalogue nor the model knows put right. */
function asMeant(query: string, corrections: ReadonlyMap<string, string>, table: EmbeddingTable): string {
  let meant = query
  for (const [word, other] of corrections) if (!table.knows(word)) meant = meant.toLowerCase().replaceAll(word, other)
  return meant
}

/**
 * The relevance that the best tool needs. A query in another language has no keywords, and is a little farther from everything;
 * one of words that nobody has ever seen is near to something by chance alone.
 */
function leastFor(query: string, { hits }: LexicalMatches, table: EmbeddingTable): number {
  if (hits.length === 0 && !table.knows(query)) return Number.POSITIVE_INFINITY
  const { least = 0, leastForeign = 0 } = table.settings.fusion.relevance
  return isForeign(query) ? leastForeign : least
}

function relevance(candidate: Candidate, table: EmbeddingTable | undefined, { lanes }: ToolQueryOptions): number {
  const { features, exactName, external } = candidate
  if (exactName) return 1
  if (lanes === 'vector') return Math.min(HIGHEST, Math.max(0, external ?? features.cosine))
  return Math.min(HIGHEST, table ? relevanceOf(features, table.settings.fusion) : features.lexical)
}

const isMatch = ({ features: { lexical, cosine, covered }, external = 0 }: Candidate): boolean =>
  lexical > 0 || cosine > 0 || covered > 0 || external > 0

/** Higher first; minus infinity for a tool that is no match. */
function orderScores(
  candidates: readonly Candidate[],
  table: EmbeddingTable | undefined,
  external: boolean,
  { lanes }: ToolQueryOptions,
  fusion: Fusion,
): number[] {
  if (!table && !external)
    return candidates.map(({ features: { lexical }, calls }) => lexical * (1 + usageLift(calls) / 3))
  if (lanes === 'vector') return candidates.map((one) => one.external ?? one.features.cosine)
  if (fusion === 'source')
    return candidates.map(({ features, external: other, calls }) => {
      const score = sourceScore(other === undefined ? features : { ...features, cosine: other }, calls, true)
      return score > 0 ? score : Number.NEGATIVE_INFINITY
    })
  const learned = candidates.map(({ features }) =>
    table ? rankScore(features, table.settings.fusion) : features.lexical,
  )
  if (fusion === 'learned' && !external)
    return candidates.map(({ calls }, at) => (learned[at] as number) + usageLift(calls))
  const words = candidates.map(({ features: { lexical } }) => (lexical > 0 ? lexical : undefined))
  const near = table && candidates.map(({ features }) => features.cosine)
  const others = external ? candidates.map((one) => one.external) : undefined
  const rankings = fusion === 'learned' ? [learned, others] : [words, near, others]
  const ranks = rankings.flatMap((ranking) => (ranking ? [ranksOf(ranking)] : []))
  return candidates.map(({ calls }, at) => reciprocalRank(ranks.map((lane) => lane[at])) * (1 + usageLift(calls) / 3))
}

/** The rank of each value, the highest 0 and equal ones alike; none where there is no value. */
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

function whyOf({ features, exactName, calls, external }: Candidate): NonNullable<SearchHit['why']> {
  return { ...features, exactName, calls, ...(external === undefined ? {} : { external }) }
}

/** A score of 1 means that the query names the tool. */
const namedIn = ({ hits }: ToolAnswer): string[] => hits.filter(({ score }) => score === 1).map(({ id }) => id)

/** The best of each answer, then the second of each, and so on, with room for all that are named. Of an unlikely one only the best. */
function inTurn(answers: readonly ToolAnswer[], limit: number): SearchHit[] {
  const lists = answers.map(({ hits, unanswered }) => (unanswered ? hits.slice(0, 1) : hits))
  const named = lists.flatMap((hits) => hits.filter(({ score }) => score === 1))
  const ranks = Math.max(...lists.map((hits) => hits.length))
  const inOrder = Array.from({ length: ranks }, (_, rank) => lists.flatMap((hits) => hits[rank] ?? [])).flat()
  const kept = new Set<string>()
  for (const { id } of [...named, ...inOrder]) if (kept.size < limit) kept.add(id)
  return inOrder.filter(({ id }) => kept.delete(id))
}

function pick<T extends object, K extends keyof T>(from: T, ...keys: K[]): Pick<T, K> {
  const picked = {} as Pick<T, K>
  for (const key of keys) if (from[key] !== undefined) picked[key] = from[key]
  return picked
}
