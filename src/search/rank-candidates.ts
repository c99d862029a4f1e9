import type { Candidate, Candidates } from './candidates.ts'
import { type Fusion, rankScore, reciprocalRank, sourceScore, usageLift } from './fuse-rankings.ts'
import type { ToolQueryOptions } from './tool-search.ts'

export interface RankedCandidate {
  readonly candidate: Candidate
  /** Higher is better. Comparable within one query only. */
  readonly fused: number
}

/** The candidates that match, best first. Those that the query names come before all others. */
export function rankCandidates(
  found: Candidates,
  ranker: ToolQueryOptions['ranker'],
  fusion: Fusion,
): RankedCandidate[] {
  const scores = scoreCandidates(found, ranker, fusion)
  return found.candidates
    .map((candidate, at): RankedCandidate => ({ candidate, fused: scores[at] as number }))
    .filter(({ candidate, fused }) => candidate.exactName || (fused > Number.NEGATIVE_INFINITY && isMatch(candidate)))
    .sort(
      (a, b) =>
        Number(b.candidate.exactName) - Number(a.candidate.exactName) ||
        b.fused - a.fused ||
        a.candidate.slot - b.candidate.slot,
    )
}

const isMatch = ({ features: { lexical, cosine, covered, encoded }, customCosine = 0 }: Candidate): boolean =>
  lexical > 0 || cosine > 0 || covered > 0 || encoded > 0 || customCosine > 0

/** Ranking scores, higher first; minus infinity for a tool that does not match. */
function scoreCandidates(
  { candidates, weights, hasCustomModel }: Candidates,
  ranker: ToolQueryOptions['ranker'],
  fusion: Fusion,
): number[] {
  if (!weights && !hasCustomModel)
    return candidates.map(({ features: { lexical }, calls }) => lexical * (1 + usageLift(calls) / 3))
  if (ranker === 'vector') return candidates.map(({ features, customCosine }) => customCosine ?? features.cosine)
  if (fusion === 'source')
    return candidates.map(({ features, customCosine, calls }) => {
      const cosine = customCosine ?? features.cosine
      const score = sourceScore({ ...features, cosine }, calls, true)
      return score > 0 ? score : Number.NEGATIVE_INFINITY
    })
  const learned = candidates.map(({ features }) => (weights ? rankScore(features, weights) : features.lexical))
  if (fusion === 'learned' && !hasCustomModel)
    return candidates.map(({ calls }, at) => (learned[at] as number) + usageLift(calls))
  const words = candidates.map(({ features: { lexical } }) => (lexical > 0 ? lexical : undefined))
  const cosines = weights && candidates.map(({ features }) => features.cosine)
  const customCosines = hasCustomModel ? candidates.map(({ customCosine }) => customCosine) : undefined
  const rankings = fusion === 'learned' ? [learned, customCosines] : [words, cosines, customCosines]
  const ranks = rankings.flatMap((ranking) => (ranking ? [ranksOf(ranking)] : []))
  return candidates.map(
    ({ calls }, at) => reciprocalRank(ranks.map((ranking) => ranking[at])) * (1 + usageLift(calls) / 3),
  )
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
