import { setImmediate } from 'node:timers/promises'
import type { SearchSource } from './search-document.ts'

/** A line of a tool corpus. */
export interface EvalTool {
  readonly id: string
  readonly server: string
  readonly name: string
  readonly description?: string
  /** The server's own description. */
  readonly serverDescription?: string
  readonly inputSchema?: Record<string, unknown>
}

/** A labelled query with the ids of all tools that answer it; no ids if no tool does. */
export interface EvalQuery {
  readonly id: string
  readonly query: string
  readonly relevant: readonly string[]
  /** Language tag; queries that have one are also averaged by language. */
  readonly lang?: string
}

/** Means over labelled queries, 0 to 1. */
export interface EvalScores {
  /** Queries with at least one relevant tool; only these are scored. */
  readonly queries: number
  readonly recall: { readonly 1: number; readonly 3: number; readonly 5: number; readonly 10: number }
  readonly ndcg10: number
  readonly mrr: number
  /** Share of these queries whose answer says that no tool is likely to be right. */
  readonly refused: number
}

export interface EvalRow extends EvalQuery {
  /** The first ten answers, best first. */
  readonly answers: readonly string[]
  readonly unlikely: boolean
  /** Rank of each relevant tool from 1, in the order of `relevant`; 0 if it is not among the answers. */
  readonly ranks: readonly number[]
}

/** The scores of one corpus; latencies in milliseconds. */
export interface EvalReport extends EvalScores {
  /** Number of tools searched, including distractors. */
  readonly tools: number
  /** Queries without a relevant tool, and the share of them whose answer does not say so. */
  readonly noMatch: { readonly queries: number; readonly answered: number }
  /** Scores by language, for queries that have one. */
  readonly languages: ReadonlyMap<string, EvalScores>
  readonly latencyMs: { readonly p50: number; readonly p95: number }
  /** Every query in the order given. */
  readonly rows: readonly EvalRow[]
}

/** Ids, best first. */
export interface EvalAnswer {
  readonly ids: readonly string[]
  /** True if the answer says that no tool is likely to be right. */
  readonly unlikely?: boolean
}

/** The search to measure: gets the corpus once, then answers queries. */
export interface EvalSearch {
  load(sources: readonly SearchSource[]): void | Promise<void>
  query(query: string, limit: number): EvalAnswer | Promise<EvalAnswer>
}

export interface EvalOptions {
  /** Clock in milliseconds. */
  readonly nowMs?: () => number
  /** Called about every 100 ms with the number of finished queries. */
  readonly onProgress?: (done: number, all: number) => void
  /** Aborts the run with its reason. */
  readonly signal?: AbortSignal
}

const DEPTH = 10
const YIELD_MS = 100

/** Share of the relevant tools that are among the first `k`. */
export function recallAt(ranked: readonly string[], relevant: ReadonlySet<string>, k: number): number {
  if (relevant.size === 0) return 0
  return ranked.slice(0, k).filter((id) => relevant.has(id)).length / relevant.size
}

/** Normalized discounted cumulative gain of the first `k`; a relevant tool gains one. */
export function ndcgAt(ranked: readonly string[], relevant: ReadonlySet<string>, k: number): number {
  if (relevant.size === 0) return 0
  const discount = (rank: number): number => 1 / Math.log2(rank + 2)
  let gain = 0
  ranked.slice(0, k).forEach((id, rank) => {
    if (relevant.has(id)) gain += discount(rank)
  })
  let ideal = 0
  for (let rank = 0; rank < Math.min(k, relevant.size); rank++) ideal += discount(rank)
  return gain / ideal
}

/** One divided by the rank of the first relevant tool; 0 if there is none. */
export function reciprocalRank(ranked: readonly string[], relevant: ReadonlySet<string>): number {
  const rank = ranked.findIndex((id) => relevant.has(id))
  return rank < 0 ? 0 : 1 / (rank + 1)
}

/** Quantile by nearest rank; 0 for an empty list. @param share 0 to 1 */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
}

/** A corpus line as search expects it; the server is the category. */
export function sourceOfEvalTool(tool: EvalTool): SearchSource {
  return {
    id: tool.id,
    name: tool.name,
    module: tool.server,
    title: '',
    description: tool.description ?? '',
    aliases: [],
    tags: [],
    sideEffects: [],
    inputJson: tool.inputSchema ?? {},
    origin: 'upstream',
    ...(tool.serverDescription !== undefined && { moduleDescription: tool.serverDescription }),
  }
}

/**
 * Which of `candidates` can be added to `tools` without making a right answer count as wrong: excludes tools with the
 * name of a relevant tool (ignoring case and server prefix) and tools with an id that exists. If more than `max`
 * remain, takes a reproducible sample: those with the lowest hash.
 */
export function distractorsFor(
  tools: readonly EvalTool[],
  queries: readonly EvalQuery[],
  candidates: readonly EvalTool[],
  max = Number.POSITIVE_INFINITY,
): EvalTool[] {
  const ids = new Set(tools.map(({ id }) => id))
  const relevant = new Set(queries.flatMap((query) => query.relevant))
  const names = new Set(tools.filter(({ id }) => relevant.has(id)).flatMap(namesOf))
  const allowed = candidates.filter((tool) => {
    if (ids.has(tool.id) || namesOf(tool).some((name) => names.has(name))) return false
    ids.add(tool.id)
    return true
  })
  if (allowed.length <= max) return allowed
  const ordered = allowed.map((tool) => ({ tool, hash: fnv1a(tool.id) }))
  ordered.sort((a, b) => a.hash - b.hash || (a.tool.id < b.tool.id ? -1 : 1))
  return ordered.slice(0, max).map(({ tool }) => tool)
}

/** The lower-case name with and without its server prefix: `github__create_issue` and `create_issue`. */
function namesOf({ server, name }: EvalTool): string[] {
  const fullName = name.toLowerCase()
  const prefix = server.toLowerCase()
  const [, bare] =
    prefix && fullName.startsWith(prefix) ? (/^[^\p{L}\p{N}]+(.+)$/u.exec(fullName.slice(prefix.length)) ?? []) : []
  return bare === undefined ? [fullName] : [fullName, bare]
}

/** FNV-1a, 32 bits, over UTF-16 code units. */
export function fnv1a(text: string): number {
  let hash = 2166136261
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 16777619) >>> 0
  return hash
}

/** Evaluates search on a corpus. See `evaluateSources`. */
export const evaluate = (
  tools: readonly EvalTool[],
  queries: readonly EvalQuery[],
  search: EvalSearch,
  options?: EvalOptions,
): Promise<EvalReport> => evaluateSources(tools.map(sourceOfEvalTool), queries, search, options)

/**
 * Runs all queries and scores those with relevant tools. One untimed query runs first, so that lazy indexing does not
 * count as latency.
 */
export async function evaluateSources(
  sources: readonly SearchSource[],
  queries: readonly EvalQuery[],
  search: EvalSearch,
  { nowMs = () => performance.now(), onProgress, signal }: EvalOptions = {},
): Promise<EvalReport> {
  await search.load(sources)
  if (queries[0]) await search.query(queries[0].query, DEPTH)
  const latencies: number[] = []
  const rows: EvalRow[] = []
  let lastYield = performance.now()
  for (const query of queries) {
    const started = nowMs()
    const { ids: answers, unlikely = answers.length === 0 } = await search.query(query.query, DEPTH)
    latencies.push(nowMs() - started)
    rows.push({ ...query, answers, unlikely, ranks: query.relevant.map((id) => answers.indexOf(id) + 1) })
    if (performance.now() - lastYield < YIELD_MS) continue
    // Search may answer without yielding, so this lets an abort signal through.
    await setImmediate()
    signal?.throwIfAborted()
    onProgress?.(rows.length, queries.length)
    lastYield = performance.now()
  }
  const unlabelled = rows.filter(({ relevant }) => relevant.length === 0)
  const languages = new Set(rows.flatMap(({ lang }) => lang ?? []))
  return {
    tools: sources.length,
    ...scoresOf(rows),
    noMatch: {
      queries: unlabelled.length,
      answered: meanOf(unlabelled.map(({ unlikely }) => Number(!unlikely))),
    },
    languages: new Map([...languages].sort().map((lang) => [lang, scoresOf(rows.filter((row) => row.lang === lang))])),
    latencyMs: { p50: quantile(latencies, 0.5), p95: quantile(latencies, 0.95) },
    rows,
  }
}

/** The scores of the rows that have relevant tools. */
function scoresOf(rows: readonly EvalRow[]): EvalScores {
  const labelled = rows
    .filter(({ relevant }) => relevant.length > 0)
    .map(({ answers, unlikely, relevant }) => ({ answers, unlikely, expected: new Set(relevant) }))
  const recall = (k: number): number => meanOf(labelled.map(({ answers, expected }) => recallAt(answers, expected, k)))
  return {
    queries: labelled.length,
    recall: { 1: recall(1), 3: recall(3), 5: recall(5), 10: recall(10) },
    ndcg10: meanOf(labelled.map(({ answers, expected }) => ndcgAt(answers, expected, DEPTH))),
    mrr: meanOf(labelled.map(({ answers, expected }) => reciprocalRank(answers, expected))),
    refused: meanOf(labelled.map(({ unlikely }) => Number(unlikely))),
  }
}

/** The mean over corpora, each with the same weight; `queries` is the sum. */
export function macroAverage(reports: readonly EvalScores[]): EvalScores {
  const scored = reports.filter(({ queries }) => queries > 0)
  const mean = (pick: (scores: EvalScores) => number): number => meanOf(scored.map(pick))
  return {
    queries: scored.reduce((sum, { queries }) => sum + queries, 0),
    recall: {
      1: mean(({ recall }) => recall[1]),
      3: mean(({ recall }) => recall[3]),
      5: mean(({ recall }) => recall[5]),
      10: mean(({ recall }) => recall[10]),
    },
    ndcg10: mean(({ ndcg10 }) => ndcg10),
    mrr: mean(({ mrr }) => mrr),
    refused: mean(({ refused }) => refused),
  }
}

const meanOf = (values: readonly number[]): number =>
  values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : 0
