import { getOrInsert } from '../core/get-or-insert.ts'
import { type EvalQuery, type EvalReport, type EvalScores, type EvalSearch, evaluateSources } from './evaluate.ts'
import type { Miss } from './misses.ts'
import { bareNameOf, documentOf, type SearchSource } from './search-document.ts'
import { isStopWord, stemOf, wordsOf } from './tokenize.ts'

/** An alias that answers recorded queries better and none worse. */
export interface AliasProposal {
  readonly tool: string
  readonly alias: string
  /** The queries that it answers better, with the rank of the tool; 0 if it was not among the first ten. */
  readonly queries: readonly { readonly query: string; readonly before: number; readonly after: number }[]
}

export interface AliasSuggestions {
  readonly proposals: readonly AliasProposal[]
  /** Figures of the recorded queries that led to a call, without and with all proposals. */
  readonly before: EvalScores
  readonly after: EvalScores
  /** Queries that no call followed, with how often, the most frequent first. */
  readonly unused: readonly { readonly query: string; readonly times: number }[]
}

export interface SuggestOptions {
  readonly onProgress?: (done: number, all: number) => void
  readonly signal?: AbortSignal
}

const MAX_QUERIES = 300
/** Each candidate is measured on all queries. */
const MAX_CANDIDATES = 60
const MAX_WORDS = 5
const MAX_PER_TOOL = 5
/** Longer words are not words that people say. */
const WORD = /^[\p{L}\p{M}]{2,24}$/u

interface Candidate {
  readonly tool: string
  readonly alias: string
}

/**
 * Proposes aliases in the words of recorded queries. Each is measured on all of them and proposed only if none gets
 * worse.
 * @param search the search of the product; it is loaded again for each candidate
 */
export async function suggestAliases(
  sources: readonly SearchSource[],
  misses: readonly Miss[],
  search: EvalSearch,
  { onProgress, signal }: SuggestOptions = {},
): Promise<AliasSuggestions> {
  const byId = new Map(sources.map((source) => [source.id, source]))
  const queries = labelQueries(misses, byId)
  const measure = (measuredSources: readonly SearchSource[]): Promise<EvalReport> =>
    evaluateSources(measuredSources, queries, search, signal ? { signal } : {})
  const baseline = await measure(sources)
  const candidates = candidatesFor(baseline, byId)
  let current = { sources, report: baseline }
  const proposals: AliasProposal[] = []
  for (const [index, candidate] of candidates.entries()) {
    onProgress?.(index, candidates.length)
    const candidateSources = withAlias(current.sources, candidate)
    const report = await measure(candidateSources)
    const improvements = findImprovements(current.report, report)
    if (!improvements || improvements.length === 0) continue
    proposals.push({ ...candidate, queries: improvements })
    current = { sources: candidateSources, report }
  }
  onProgress?.(candidates.length, candidates.length)
  return { proposals, before: baseline, after: current.report, unused: countUnused(misses) }
}

/** Equal queries count once, with all tools that were called for them. */
function labelQueries(misses: readonly Miss[], toolsById: ReadonlyMap<string, unknown>): readonly EvalQuery[] {
  const toolsByQuery = new Map<string, Set<string>>()
  for (const { query, called } of misses) {
    if (called === undefined || !toolsById.has(called)) continue
    const key = query.trim()
    toolsByQuery.set(key, (toolsByQuery.get(key) ?? new Set()).add(called))
  }
  return [...toolsByQuery]
    .slice(-MAX_QUERIES)
    .map(([query, relevant]) => ({ id: query, query, relevant: [...relevant] }))
}

function countUnused(misses: readonly Miss[]): AliasSuggestions['unused'] {
  const times = new Map<string, number>()
  for (const { query, called } of misses) if (called === undefined) times.set(query, (times.get(query) ?? 0) + 1)
  return [...times].map(([query, count]) => ({ query, times: count })).sort((a, b) => b.times - a.times)
}

/** For each tool that was called and not first: words that its queries share, then the words of each query. */
function candidatesFor({ rows }: EvalReport, byId: ReadonlyMap<string, SearchSource>): readonly Candidate[] {
  const existingNames = new Set(
    [...byId.values()].flatMap((source) => [bareNameOf(source), ...source.aliases].map(foldCase)),
  )
  const queriesByTool = new Map<string, string[][]>()
  for (const { query, relevant, ranks } of rows)
    relevant.forEach((tool, index) => {
      // A query that several tools answer is no reason to lift one of them.
      if (relevant.length > 1 || ranks[index] === 1) return
      getOrInsert(queriesByTool, tool, () => []).push(contentWordsOf(query))
    })
  const candidates = [...queriesByTool].flatMap(([tool, lists]) => {
    const knownStems = new Set(stemsOf(byId.get(tool) as SearchSource))
    const aliases = [sharedWordsOf(lists), ...lists]
      // Only aliases of several words, which no policy rule takes for the name of a tool.
      .filter((words) => words.length > 1 && words.some((word) => !knownStems.has(stemOf(word))))
      .map((words) => words.slice(0, MAX_WORDS).join(' '))
    return [...new Set(aliases)]
      .filter((alias) => !existingNames.has(foldCase(alias)))
      .slice(0, MAX_PER_TOOL)
      .map((alias) => ({ tool, alias }))
  })
  return candidates.slice(0, MAX_CANDIDATES)
}

const foldCase = (name: string): string => name.toLowerCase()

/** The words of a query that say what is wanted: no names, numbers and placeholders. */
function contentWordsOf(query: string): string[] {
  const plain = query.replaceAll(/<[a-z]+>|["'“”«»].*?["'“”«»](?=\W|$)/g, ' ')
  // In the middle of a sentence, a capital letter begins a name.
  const names = new Set(
    [...plain.matchAll(/(?<=[\p{L}\p{N},;] )\p{Lu}[\p{L}\p{M}]*/gu)].map(([word]) => word.toLowerCase()),
  )
  const words = wordsOf(plain).map(({ text }) => text)
  return [...new Set(words.filter((word) => WORD.test(word) && !isStopWord(word) && !names.has(word)))]
}

/** The words of at least two of the queries, the most frequent first. */
function sharedWordsOf(lists: readonly (readonly string[])[]): string[] {
  const times = new Map<string, number>()
  for (const word of lists.flat()) times.set(word, (times.get(word) ?? 0) + 1)
  return [...times]
    .filter(([, count]) => count > 1)
    .sort((a, b) => b[1] - a[1])
    .map(([word]) => word)
}

const stemsOf = (source: SearchSource): string[] =>
  documentOf(source)
    .fields.filter(({ name }) => name === 'name' || name === 'aliases')
    .flatMap(({ text }) => wordsOf(text).flatMap((word) => [word.text, ...word.parts].map(stemOf)))

/** Not a spread, which would lose inherited getters. The stamp must change with the aliases. */
const withAlias = (sources: readonly SearchSource[], { tool, alias }: Candidate): readonly SearchSource[] =>
  sources.map((source) =>
    source.id === tool
      ? Object.create(source, { aliases: { value: [...source.aliases, alias] }, stamp: { value: undefined } })
      : source,
  )

/** The queries that are answered better; undefined if one is answered worse. */
function findImprovements(before: EvalReport, after: EvalReport): AliasProposal['queries'] | undefined {
  const improvements: AliasProposal['queries'][number][] = []
  for (const [index, row] of before.rows.entries()) {
    const afterRow = after.rows[index] as (typeof before.rows)[number]
    const changes = row.ranks.map((rank, tool) => ({ before: rank, after: afterRow.ranks[tool] ?? 0 }))
    if (
      (afterRow.unlikely && !row.unlikely) ||
      changes.some((change) => rankOrLast(change.after) > rankOrLast(change.before))
    )
      return undefined
    const [best] = changes.filter((change) => rankOrLast(change.after) < rankOrLast(change.before))
    if (best) improvements.push({ query: row.query, ...best })
  }
  return improvements
}

const rankOrLast = (rank: number): number => (rank === 0 ? Number.POSITIVE_INFINITY : rank)
