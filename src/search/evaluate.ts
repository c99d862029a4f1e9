import type { SearchSource } from './document.ts'

/** A line of a tool corpus. */
export interface EvalTool {
  readonly id: string
  readonly server: string
  readonly name: string
  readonly description?: string
  readonly inputSchema?: Record<string, unknown>
}

/** A labelled query: the ids of every tool that answers it. */
export interface EvalQuery {
  readonly id: string
  readonly query: string
  readonly relevant: readonly string[]
}

/** Means over the queries, 0 to 1; latencies in milliseconds. */
export interface EvalReport {
  readonly tools: number
  /** Queries with at least one relevant tool; only these are scored. */
  readonly queries: number
  readonly recall: { readonly 1: number; readonly 3: number; readonly 5: number; readonly 10: number }
  readonly ndcg10: number
  readonly mrr: number
  readonly latencyMs: { readonly p50: number; readonly p95: number }
}

/** How the product searches: told the corpus once, then asked for ids, best first. */
export interface EvalSearch {
  load(sources: readonly SearchSource[]): void
  query(query: string, limit: number): readonly string[]
}

const DEPTH = 10

/** Relevant tools among the first `k`, over all relevant ones. */
export function recallAt(ranked: readonly string[], relevant: ReadonlySet<string>, k: number): number {
  if (relevant.size === 0) return 0
  return ranked.slice(0, k).filter((id) => relevant.has(id)).length / relevant.size
}

/** Normalised discounted gain of the first `k`; a relevant tool gains one, any other nothing. */
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

/** One over the rank of the first relevant tool; 0 when there is none. */
export function reciprocalRank(ranked: readonly string[], relevant: ReadonlySet<string>): number {
  const rank = ranked.findIndex((id) => relevant.has(id))
  return rank < 0 ? 0 : 1 / (rank + 1)
}

/** The value below which `share` (0 to 1) of the values lie: nearest rank; 0 for no values. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
}

/** A corpus line as search takes it: its server is the category. */
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
  }
}

/**
 * Runs every labelled query through `search` and scores the answers. Queries without relevant tools are left out. One
 * untimed query comes first, so that building the index is not counted as latency.
 * @param nowMs a clock in milliseconds
 */
export function evaluate(
  tools: readonly EvalTool[],
  queries: readonly EvalQuery[],
  search: EvalSearch,
  nowMs: () => number = () => performance.now(),
): EvalReport {
  search.load(tools.map(sourceOfEvalTool))
  const labelled = queries.filter(({ relevant }) => relevant.length > 0)
  if (labelled[0]) search.query(labelled[0].query, DEPTH)
  const latencies: number[] = []
  const sums = { r1: 0, r3: 0, r5: 0, r10: 0, ndcg: 0, rr: 0 }
  for (const { query, relevant } of labelled) {
    const started = nowMs()
    const ranked = search.query(query, DEPTH)
    latencies.push(nowMs() - started)
    const wanted = new Set(relevant)
    sums.r1 += recallAt(ranked, wanted, 1)
    sums.r3 += recallAt(ranked, wanted, 3)
    sums.r5 += recallAt(ranked, wanted, 5)
    sums.r10 += recallAt(ranked, wanted, 10)
    sums.ndcg += ndcgAt(ranked, wanted, DEPTH)
    sums.rr += reciprocalRank(ranked, wanted)
  }
  const mean = (sum: number): number => (labelled.length > 0 ? sum / labelled.length : 0)
  return {
    tools: tools.length,
    queries: labelled.length,
    recall: { 1: mean(sums.r1), 3: mean(sums.r3), 5: mean(sums.r5), 10: mean(sums.r10) },
    ndcg10: mean(sums.ndcg),
    mrr: mean(sums.rr),
    latencyMs: { p50: quantile(latencies, 0.5), p95: quantile(latencies, 0.95) },
  }
}
