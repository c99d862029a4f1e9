import type { EvalQuery, EvalTool } from '../src/search/evaluate.ts'
import { sourceOfEvalTool } from '../src/search/evaluate.ts'
import { FEATURES } from '../src/search/fuse.ts'
import { createToolSearch } from '../src/search/index.ts'
import type { EmbeddingTable, FusionWeights } from '../src/search/table.ts'
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

/** Asks the product's own search. */
export async function judge(
  set: string,
  tools: readonly EvalTool[],
  queries: readonly EvalQuery[],
  table: EmbeddingTable,
): Promise<Judged[]> {
  const search = createToolSearch({ table: () => table })
  search.sync(tools.map(sourceOfEvalTool), 1)
  await search.warm()
  const judged: Judged[] = []
  for (const { query, relevant } of queries) {
    const { hits } = await search.query(query.replaceAll('\n', ' '), {
      limit: CANDIDATES,
      visible: () => true,
      explain: true,
      keepUnlikely: true,
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
  return judged
}

/** Linear, listwise (ListNet: Cao et al. 2007): the softmax over a query's candidates should fall on the relevant ones. */
export function learnRank(
  judged: readonly Judged[],
  { epochs = 30, seed = 1, decay = 1e-3 } = {},
): Record<string, number> {
  const usable = judged.filter(({ candidates, relevant }) => candidates.some(({ id }) => relevant.has(id)))
  const { mean, deviation } = spreadOf(usable)
  const counts = new Map<string, number>()
  for (const { set } of usable) counts.set(set, (counts.get(set) ?? 0) + 1)
  const data = usable.map(({ set, candidates, relevant }) => ({
    // Large sets count more, but not in proportion.
    weight: Math.sqrt(200 / (counts.get(set) ?? 1)),
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

/**
 * What makes an answer likely right, whatever else is in the catalogue. Keywords do not: a made-up wish shares words with tools
 * as often as a real one. Fixed by hand, because every regression on more features let more of them through.
 */
const EVIDENCE = { cosine: 1, covered: 0.5 } as const

/** How likely a tool with this much evidence is what was asked for (Platt 1999): a logistic curve through right and wrong ones. */
export function learnRelevance(
  examples: readonly { readonly features: readonly number[]; readonly relevant: boolean }[],
): Record<string, number> {
  const evidence = examples.map(({ features }) =>
    FEATURES.reduce(
      (sum, name, k) => sum + (features[k] ?? 0) * (name in EVIDENCE ? EVIDENCE[name as 'cosine'] : 0),
      0,
    ),
  )
  const right = examples.filter(({ relevant }) => relevant).length
  const curve = new Float64Array([1, 0])
  const adam = createAdam(2)
  for (let round = 0; round < 600; round++) {
    const gradient = new Float64Array(2)
    examples.forEach(({ relevant }, at) => {
      const share = relevant ? 0.5 / right : 0.5 / (examples.length - right)
      const value = evidence[at] as number
      const guess = 1 / (1 + Math.exp(-(curve[0] as number) * value - (curve[1] as number)))
      const error = (guess - (relevant ? 1 : 0)) * share
      gradient[0] = (gradient[0] as number) + error * value
      gradient[1] = (gradient[1] as number) + error
    })
    adam(curve, gradient, 0.1)
  }
  const [slope = 1, bias = 0] = curve
  return { cosine: slope * EVIDENCE.cosine, covered: slope * EVIDENCE.covered, bias }
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
