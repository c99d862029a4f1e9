import type { FusionWeights } from './table.ts'

/** What is known of one tool for one query. All but `lexicalShare` are absolute: comparable between queries. */
export interface Features {
  /** Keyword score, 0 to 1. */
  readonly lexical: number
  /** Keyword score over that of the best tool, 0 to 1. */
  readonly lexicalShare: number
  /** Between the vectors of query and tool. */
  readonly cosine: number
  /** How well the tool's words cover the query's (late interaction), 0 to 1. */
  readonly covered: number
  /** How well the query's words cover the tool's name, 0 to 1. */
  readonly nameCovered: number
}

export const FEATURES = [
  'lexical',
  'lexicalShare',
  'cosine',
  'covered',
  'nameCovered',
] as const satisfies readonly (keyof Features)[]

export type Fusion = 'learned' | 'rrf' | 'source'

/** Reciprocal rank fusion (Cormack et al. 2009); a small constant keeps the first ranks apart. */
const RRF_CONSTANT = 10
/** How far usage may lift a match. In units of the learned order, where 1 makes a tool e times as likely the right one. */
const USAGE = { perCall: 0.5, most: 3, unit: 0.1 } as const

/** The learned order: higher first. Comparable within one query only. */
export function rankScore(features: Features, weights: FusionWeights): number {
  return weighed(features, weights.rank)
}

/** The probability that a tool answers the query, 0 to 1. */
export function relevanceOf(features: Features, weights: FusionWeights): number {
  return 1 / (1 + Math.exp(-weighed(features, weights.relevance) - (weights.relevance['bias'] ?? 0)))
}

function weighed(features: Features, weights: Readonly<Record<string, number>>): number {
  let sum = 0
  for (const name of FEATURES) sum += (weights[name] ?? 0) * features[name]
  return sum
}

/** Usage as an addition to the learned order: settles near ties, never lifts a tool over one that matches better. */
export function usageLift(calls: number): number {
  return Math.min(USAGE.perCall * Math.max(0, calls || 0), USAGE.most) * USAGE.unit
}

/** @param ranks of one tool in each lane, from 0; undefined where it is not ranked */
export function reciprocalRank(ranks: readonly (number | undefined)[]): number {
  let sum = 0
  for (const rank of ranks) if (rank !== undefined) sum += 1 / (RRF_CONSTANT + rank + 1)
  return sum
}

/** The formula of the source design: ten times the cosine, plus a boost of two to three for keywords. */
const SOURCE = { cosineFloor: 0.2, times: 10, boost: 3, usage: 1, least: 5 } as const

/** @param semantic false when there are no vectors: then nothing is dropped */
export function sourceScore({ cosine, lexicalShare }: Features, calls: number, semantic: boolean): number {
  const near = cosine >= SOURCE.cosineFloor ? cosine * SOURCE.times : 0
  const boost = lexicalShare > 0 ? SOURCE.boost - 1 + lexicalShare : 0
  const score = near + boost + Math.min(USAGE.perCall * Math.max(0, calls || 0), USAGE.most) * SOURCE.usage
  return semantic && score < SOURCE.least ? 0 : score
}
