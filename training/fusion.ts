import type { Atlas } from '../src/search/atlas.ts'
import type { EmbeddingTable } from '../src/search/embedding-table.ts'
import type { EvalQuery, EvalTool } from '../src/search/evaluate.ts'
import { sourceOfEvalTool } from '../src/search/evaluate.ts'
import { FEATURES, type FusionWeights, MAX_MARGIN } from '../src/search/fuse-rankings.ts'
import type { SemanticRetriever } from '../src/search/semantic-retriever.ts'
import { createToolSearch } from '../src/search/tool-search.ts'
import { createRandom, shuffle } from './random.ts'

/** Where the learning of the fusion starts, and good enough to choose candidates by. */
export const FIRST_FUSION: FusionWeights = {
  rank: { lexicalShare: 2, cosine: 5, covered: 4, nameCovered: 1 },
  relevance: { bias: 0, least: 0 },
}

/** What search knows of the candidates of one query. */
export interface Judged {
  readonly set: string
  readonly candidates: readonly {
    readonly id: string
    readonly features: readonly number[]
    readonly exactName: boolean
  }[]
  readonly relevant: ReadonlySet<string>
}

const CANDIDATES = 80

/** Asks the product's own search. The retriever, if given, is closed at the end. */
export async function judge(
  set: string,
  tools: readonly EvalTool[],
  queries: readonly EvalQuery[],
  table: EmbeddingTable,
  { semantic, atlas }: { readonly semantic?: SemanticRetriever; readonly atlas?: Atlas } = {},
): Promise<Judged[]> {
  const search = createToolSearch({ table: () => table, atlas: () => atlas, ...(semantic && { semantic }) })
  search.sync(tools.map(sourceOfEvalTool), 1)
  await search.warm()
  await semantic?.settled()
  const judged: Judged[] = []
  for (const { query, relevant } of queries) {
    const { hits } = await search.query(query.replaceAll('\n', ' '), {
      limit: CANDIDATES,
      visible: () => true,
      explain: true,
    })
    judged.push({
      set,
      relevant: new Set(relevant),
      candidates: hits.map(({ id, why }) => ({
        id,
        features: FEATURES.map((name) => why?.[name] ?? 0),
        exactName: why?.exactName ?? false,
      })),
    })
  }
  await search.close()
  return judged
}

/** Linear, listwise (ListNet: Cao et al. 2007): the softmax over a query's candidates should fall on the relevant ones. */
export function learnRank(
  judged: readonly Judged[],
  { epochs = 30, seed = 1, decay = 1e-3, weightOf = (_set: string): number => 1 } = {},
): Record<string, number> {
  const usable = judged.filter(({ candidates, relevant }) => candidates.some(({ id }) => relevant.has(id)))
  const { mean, deviation } = spreadOf(usable)
  const counts = new Map<string, number>()
  for (const { set } of usable) counts.set(set, (counts.get(set) ?? 0) + 1)
  const data = usable.map(({ set, candidates, relevant }) => ({
    // Large sets count more, but not in proportion.
    weight: weightOf(set) * Math.sqrt(200 / (counts.get(set) ?? 1)),
    rows: candidates.map(({ features }) => features.map((value, k) => (value - (mean[k] ?? 0)) / (deviation[k] ?? 1))),
    wanted: candidates.map(({ id }) => (relevant.has(id) ? 1 : 0)),
  }))
  const random = createRandom(seed)
  const weights = new Float64Array(FEATURES.length)
  const adam = createAdam(weights.length)
  for (let epoch = 0; epoch < epochs; epoch++) {
    shuffle(data, random)
    for (let start = 0; start < data.length; start += 16) {
      const some = data.slice(start, start + 16)
      const gradient = new Float64Array(FEATURES.length)
      for (let k = 0; k < FEATURES.length; k++) gradient[k] = decay * (weights[k] as number) * some.length
      for (const { weight, rows, wanted } of some) {
        const scores = rows.map((row) => row.reduce((sum, value, k) => sum + value * (weights[k] as number), 0))
        const highest = Math.max(...scores)
        const powers = scores.map((score) => Math.exp(score - highest))
        const all = powers.reduce((sum, power) => sum + power, 0)
        const hits = wanted.filter(Boolean).length
        rows.forEach((row, at) => {
          const error = weight * ((powers[at] as number) / all - (wanted[at] as number) / hits)
          row.forEach((value, k) => {
            gradient[k] = (gradient[k] as number) + error * value
          })
        })
      }
      adam(weights, gradient, 0.02 * (1 - epoch / epochs) + 0.001)
    }
  }
  return Object.fromEntries(FEATURES.map((name, k) => [name, (weights[k] as number) / (deviation[k] ?? 1)]))
}

/** Features that are counted together, in fixed proportions. */
export type Evidence = Partial<Readonly<Record<(typeof FEATURES)[number], number>>>
/**
 * What makes an answer likely right, whatever else is in the catalog. Keywords do not: a made-up request shares words
 * with tools as often as a real one. The proportion of the table's features is fixed by hand, because a regression on
 * both let more of these requests through.
 */
export const TABLE_EVIDENCE: readonly Evidence[] = [{ cosine: 1, covered: 0.5 }]
export const ENCODER_EVIDENCE: readonly Evidence[] = [{ cosine: 1 }, { covered: 1 }, { encoded: 1 }, { known: 1 }]

interface Example {
  readonly relevant: boolean
  readonly weight: number
}

/** Logistic regression through right and wrong answers (Platt 1999), each counted by its weight. */
export function learnRelevance(
  examples: readonly (Example & { readonly features: readonly number[] })[],
  evidence: readonly Evidence[],
): Record<string, number> {
  const rows = examples.map(({ features }) => [
    ...evidence.map((parts) => FEATURES.reduce((sum, name, k) => sum + (features[k] ?? 0) * (parts[name] ?? 0), 0)),
    1,
  ])
  const slopes = regress(examples, rows)
  const learned: Record<string, number> = { bias: slopes[evidence.length] as number }
  evidence.forEach((parts, k) => {
    for (const [name, factor] of Object.entries(parts)) learned[name] = (slopes[k] as number) * factor
  })
  return learned
}

/** Weights of the relevance that is shown, from the best answers of labelled queries; see `FusionWeights.shown`. */
export function learnShown(
  examples: readonly (Example & { readonly evidence: number; readonly margin: number })[],
): Record<string, number> {
  const rows = examples.map(({ evidence, margin }) => [evidence, Math.min(MAX_MARGIN, margin), 1])
  const [evidence = 0, margin = 0, bias = 0] = regress(examples, rows)
  return { evidence, margin, bias }
}

/** @param rows the inputs of each example, the last one 1 */
function regress(examples: readonly Example[], rows: readonly (readonly number[])[]): Float64Array {
  const all = examples.reduce((sum, { weight }) => sum + weight, 0)
  const slopes = new Float64Array(rows[0]?.length ?? 0).fill(1)
  slopes[slopes.length - 1] = 0
  const adam = createAdam(slopes.length)
  for (let round = 0; round < 2_000; round++) {
    const gradient = new Float64Array(slopes.length)
    examples.forEach(({ relevant, weight }, at) => {
      const row = rows[at] as number[]
      const guess = 1 / (1 + Math.exp(-row.reduce((sum, value, k) => sum + value * (slopes[k] as number), 0)))
      const error = ((guess - (relevant ? 1 : 0)) * weight) / all
      row.forEach((value, k) => {
        gradient[k] = (gradient[k] as number) + error * value
      })
    })
    adam(slopes, gradient, 0.1 * (1 - round / 2_000))
  }
  return slopes
}

function spreadOf(judged: readonly Judged[]): { mean: number[]; deviation: number[] } {
  const rows = judged.flatMap(({ candidates }) => candidates.map(({ features }) => features))
  const mean = FEATURES.map((_, k) => rows.reduce((sum, row) => sum + (row[k] ?? 0), 0) / rows.length)
  const deviation = FEATURES.map(
    (_, k) => Math.sqrt(rows.reduce((sum, row) => sum + ((row[k] ?? 0) - (mean[k] ?? 0)) ** 2, 0) / rows.length) || 1,
  )
  return { mean, deviation }
}

/** Adam (Kingma, Ba 2015) with its usual constants. */
function createAdam(size: number) {
  const first = new Float64Array(size)
  const second = new Float64Array(size)
  let steps = 0
  return (weights: Float64Array, gradient: Float64Array, rate: number): void => {
    steps++
    for (let k = 0; k < size; k++) {
      const slope = gradient[k] as number
      first[k] = 0.9 * (first[k] as number) + 0.1 * slope
      second[k] = 0.999 * (second[k] as number) + 0.001 * slope * slope
      const step =
        (first[k] as number) / (1 - 0.9 ** steps) / (Math.sqrt((second[k] as number) / (1 - 0.999 ** steps)) + 1e-8)
      weights[k] = (weights[k] as number) - rate * step
    }
  }
}
