import type { KeywordHit } from './keyword.ts'

/** Which lanes a ranking came from. */
export type Ranking = 'keyword'

/** One answer of search, best first. `score` is 0 to 1; 1 only for a tool the query names. */
export interface SearchHit {
  readonly id: string
  readonly score: number
  /** The query's words that matched. */
  readonly matched: readonly string[]
}

/** How far usage may lift a match: half a point a call, three points at most, each worth a thirtieth of its score. */
const USAGE = { perCall: 0.5, most: 3, share: 1 / 30 } as const
const HIGHEST = 0.99

/**
 * The lanes' candidates as one ranking. Named tools stay first, whatever the rest scores; usage scales a match by a tenth
 * at most, so it settles near ties and never lifts a tool that does not match.
 * @param usage how often a tool was called
 */
export function fuse(keyword: readonly KeywordHit[], limit: number, usage?: (id: string) => number): SearchHit[] {
  const ranked = keyword.map((hit) => ({
    ...hit,
    score: hit.exactName || !usage ? hit.score : Math.min(HIGHEST, hit.score * (1 + usageBoost(usage(hit.id)))),
  }))
  ranked.sort((a, b) => Number(b.exactName) - Number(a.exactName) || b.score - a.score)
  return ranked.slice(0, limit).map(({ id, score, terms }) => ({ id, score, matched: terms }))
}

function usageBoost(calls: number): number {
  return Math.min(USAGE.perCall * Math.max(0, calls || 0), USAGE.most) * USAGE.share
}
