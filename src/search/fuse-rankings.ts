/** What is known about one tool for one query. All values except `lexicalShare` are comparable between queries. */
export interface Features {
  /** Keyword score, 0 to 1. */
  readonly lexical: number
  /** Keyword score divided by that of the best tool, 0 to 1. */
  readonly lexicalShare: number
  /** Cosine of the vectors of query and tool. */
  readonly cosine: number
  /** How well the tool's words cover the query's words (late interaction), 0 to 1. */
  readonly covered: number
  /** How well the query's words cover the tool's name, 0 to 1. */
  readonly nameCovered: number
  /** Cosine of the encoder's vectors of query and tool; 0 without the encoder. */
  readonly encoded: number
  /** 1 if the tool is in the atlas, whose requests make it more similar to everything, else 0. */
  readonly known: number
  /** How rare the word is by which the query names the tool's server or module, 0 to 1; 0 if it does not. */
  readonly ownerNamed: number
}

/**
 * Learned weights of the features: for ordering the tools of one answer, and for the probability that a tool answers
 * at all.
 */
export interface FusionWeights {
  readonly rank: Readonly<Record<string, number>>
  readonly relevance: Readonly<Record<string, number>>
  /**
   * For the relevance that is shown: weights of `evidence` (the sum behind `relevance`), of `margin`, and `bias`. Absent:
   * `relevance` itself is shown.
   */
  readonly shown?: Readonly<Record<string, number>>
}

/** Larger differences between ranking scores count as this one. */
export const MAX_MARGIN = 3

export const FEATURES = [
  'lexical',
  'lexicalShare',
  'cosine',
  'covered',
  'nameCovered',
  'encoded',
  'known',
  'ownerNamed',
] as const satisfies readonly (keyof Features)[]

export type Fusion = 'learned' | 'rrf' | 'source'

/** Reciprocal rank fusion (Cormack et al. 2009); a small constant keeps the first ranks apart. */
const RRF_CONSTANT = 10
/**
 * Limits of how much usage can raise a tool, in units of the learned order, where 1 makes a tool e times as likely to
 * be right.
 */
const USAGE = { perCall: 0.5, most: 3, unit: 0.1 } as const

/** The learned ranking score; higher is better. Comparable within one query only. */
export function rankScore(features: Features, weights: FusionWeights): number {
  return sumWeighted(features, weights.rank)
}

/** The probability that a tool answers the query, 0 to 1, whatever else is in the catalog. */
export function relevanceOf(features: Features, weights: FusionWeights): number {
  return probability(evidenceOf(features, weights))
}

/**
 * The probability to show. The margin makes it more exact. `relevanceOf` ignores the margin, because it does not tell whether
 * any tool answers.
 * @param margin the tool's ranking score minus the second best, for the best tool; for others, minus the best (negative)
 */
export function shownRelevanceOf(features: Features, margin: number, weights: FusionWeights): number {
  const { shown } = weights
  if (!shown) return relevanceOf(features, weights)
  const { evidence = 0, margin: perMargin = 0, bias = 0 } = shown
  const bounded = Math.max(-MAX_MARGIN, Math.min(MAX_MARGIN, margin))
  return probability(evidence * evidenceOf(features, weights) + perMargin * bounded + bias)
}

/** Log odds of `relevanceOf`. */
const evidenceOf = (features: Features, { relevance }: FusionWeights): number =>
  sumWeighted(features, relevance) + (relevance['bias'] ?? 0)

const probability = (logit: number): number => 1 / (1 + Math.exp(-logit))

function sumWeighted(features: Features, weights: Readonly<Record<string, number>>): number {
  let sum = 0
  for (const name of FEATURES) sum += (weights[name] ?? 0) * features[name]
  return sum
}

/**
 * Usage as an addition to the learned score. It decides near ties and never lifts a tool above one that matches
 * better.
 */
export function usageLift(calls: number): number {
  return Math.min(USAGE.perCall * Math.max(0, calls || 0), USAGE.most) * USAGE.unit
}

/** @param ranks of one tool by each retriever, from 0; undefined if the retriever does not rank it */
export function reciprocalRank(ranks: readonly (number | undefined)[]): number {
  let sum = 0
  for (const rank of ranks) if (rank !== undefined) sum += 1 / (RRF_CONSTANT + rank + 1)
  return sum
}

/** The formula of `search.fusion: "source"`: ten times the cosine, plus two to three for keyword matches. */
const SOURCE = { cosineFloor: 0.2, times: 10, boost: 3, usage: 1, least: 5 } as const

/** @param hasVectors false if there are no vectors; then nothing is dropped */
export function sourceScore({ cosine, lexicalShare }: Features, calls: number, hasVectors: boolean): number {
  const cosineScore = cosine >= SOURCE.cosineFloor ? cosine * SOURCE.times : 0
  const boost = lexicalShare > 0 ? SOURCE.boost - 1 + lexicalShare : 0
  const score = cosineScore + boost + Math.min(USAGE.perCall * Math.max(0, calls || 0), USAGE.most) * SOURCE.usage
  return hasVectors && score < SOURCE.least ? 0 : score
}
