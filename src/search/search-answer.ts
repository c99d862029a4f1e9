import type { Candidate, Candidates } from './candidates.ts'
import { type Fusion, type FusionWeights, relevanceOf, shownRelevanceOf } from './fuse-rankings.ts'
import type { RankedCandidate } from './rank-candidates.ts'
import { isForeign } from './tokenize.ts'
import type { Ranking, SearchHit, ToolAnswer, ToolQueryOptions } from './tool-search.ts'

/** Maximum number of named tools returned, whatever the limit. */
export const NAMED_CAP = 20
/** Maximum number of results of several queries together. */
const RESULTS_CAP = 20
/** The best tool of a clause counts from this relevance on. */
const MIN_CLAUSE_SCORE = 0.5
const HIGHEST = 0.99
/**
 * `brief`: beside a hit of this relevance, tools whose ranking score is lower by more than `most` are left out. Learned on
 * the development sets and the everyday requests: no query loses its only right tool, and 1 to 2.4 of 5 tools remain.
 */
const BRIEF = { sure: 0.95, most: 4 } as const

/** @param isForeignModel true if a model without learned weights takes part */
export function rankingOf(isForeignModel: boolean, hasModel: boolean): Ranking {
  if (isForeignModel) return 'semantic'
  return hasModel ? 'hybrid' : 'keyword'
}

/** @param ranked best first */
export function createAnswer(
  query: string,
  found: Candidates,
  ranked: readonly RankedCandidate[],
  { limit, ranker, brief, explain }: ToolQueryOptions,
  fusion: Fusion,
  idOf: (slot: number) => string,
): ToolAnswer {
  const { matches, weights, foreign } = found
  const named = ranked.filter(({ candidate }) => candidate.exactName)
  const unnamed = ranked.filter(({ candidate }) => !candidate.exactName)
  const maxHits = Math.max(limit, Math.min(NAMED_CAP, named.length))
  const relevances = ranked.map(({ candidate }) => relevanceFor(candidate, weights, ranker))
  // The original formula has its own threshold, and this model cannot judge what another model finds.
  const judge = ranker === 'vector' || fusion === 'source' || foreign ? undefined : weights
  const minRelevance = judge ? minRelevanceFor(query, judge) : 0
  const isUnlikely =
    ranked.length === 0 ||
    Math.max(0, ...relevances.slice(0, limit)) < minRelevance ||
    (judge !== undefined && isUnknown(query, found))
  const [first = 0, second = Number.NEGATIVE_INFINITY] = unnamed.map(({ fused }) => fused)

  function shownRelevance({ candidate: { features, exactName }, fused }: RankedCandidate, at: number): number {
    // Among unlikely tools, the margin says nothing: one can be far ahead of the others, and still wrong.
    if (!judge || isUnlikely || exactName) return relevances[at] as number
    const margin = fused === first ? fused - second : fused - first
    return Math.min(HIGHEST, shownRelevanceOf(features, margin, judge))
  }

  const best = ranked.slice(0, maxHits)
  const scores = makeNonIncreasing(best.map(shownRelevance), isUnlikely ? minRelevance : 1)
  const hits = best.map(
    ({ candidate, fused }, at): SearchHit => ({
      id: idOf(candidate.slot),
      score: scores[at] as number,
      matched: matches.termsOf(candidate.slot),
      ...(explain ? { why: whyOf(candidate, fused) } : {}),
    }),
  )
  const isSure = brief && judge && named.length === 0 && (hits[0]?.score ?? 0) >= BRIEF.sure
  const more = named.slice(maxHits).map(({ candidate }) => idOf(candidate.slot))
  return {
    hits: isSure ? hits.filter((_, at) => first - (ranked[at]?.fused ?? 0) <= BRIEF.most) : hits,
    ranking: rankingOf(foreign, weights !== undefined),
    ...(isUnlikely && { unanswered: [query] }),
    ...(more.length > 0 && { more }),
  }
}

/** Lowers each score to that of the hits before it. */
function makeNonIncreasing(scores: readonly number[], ceiling = 1): number[] {
  let least = ceiling
  return scores.map((score) => {
    least = Math.min(least, score)
    return least
  })
}

/** The minimum relevance of the best tool. A query in another language matches no keywords and is less similar to everything. */
function minRelevanceFor(query: string, { relevance: { least = 0, leastForeign = 0 } }: FusionWeights): number {
  return isForeign(query) ? leastForeign : least
}

/** True for a query of unknown words, which is similar to something by chance. */
const isUnknown = (query: string, { matches, table }: Candidates): boolean =>
  matches.hits.length === 0 && table !== undefined && !table.knows(query)

function relevanceFor(
  { features, exactName, external }: Candidate,
  weights: FusionWeights | undefined,
  ranker: ToolQueryOptions['ranker'],
): number {
  if (exactName) return 1
  if (ranker === 'vector') return Math.min(HIGHEST, Math.max(0, external ?? features.cosine))
  return Math.min(HIGHEST, weights ? relevanceOf(features, weights) : features.lexical)
}

function whyOf({ features, exactName, calls, external }: Candidate, score: number): NonNullable<SearchHit['why']> {
  // The score of a tool that the query names may be minus infinity, because such a tool comes first anyway.
  const fused = Number.isFinite(score) ? score : 0
  return { ...features, exactName, calls, ...(external === undefined ? {} : { external }), fused }
}

/** The tools that the query names: only they have a score of 1. */
export const namedIdsOf = ({ hits }: ToolAnswer): string[] =>
  hits.filter(({ score }) => score === 1).map(({ id }) => id)

/** The best tool of a clause comes before those of the whole prompt if it is likely right. */
export function addClauses(prompt: ToolAnswer, clauses: readonly ToolAnswer[], limit: number): ToolAnswer {
  const sureHits = clauses
    .flatMap(({ hits: [best], unanswered }) => (best && best.score >= MIN_CLAUSE_SCORE && !unanswered ? [best] : []))
    .sort((a, b) => b.score - a.score)
  if (sureHits.length === 0) return prompt
  const byId = new Map<string, SearchHit>()
  for (const hit of [...sureHits, ...prompt.hits]) if (!byId.has(hit.id)) byId.set(hit.id, hit)
  const { unanswered: _, ...rest } = prompt
  const hits = [...byId.values()].slice(0, limit)
  const scores = makeNonIncreasing(hits.map(({ score }) => score))
  return { ...rest, hits: hits.map((hit, at) => ({ ...hit, score: scores[at] as number })) }
}

/** One answer to several queries, from the answer to each. */
export function joinAnswers(each: readonly ToolAnswer[], limitPerQuery: number): ToolAnswer {
  const answers = each.map((answer, query) => {
    // A query that is a name needs no other tools.
    const isName = namedIdsOf(answer).length > 0
    const hits = answer.hits.filter(({ score }) => !isName || score === 1)
    return { ...answer, hits: hits.map((hit) => ({ ...hit, query })) }
  })
  const named = new Set(answers.flatMap((answer) => [...namedIdsOf(answer), ...(answer.more ?? [])]))
  const others = answers.filter((answer) => namedIdsOf(answer).length === 0)
  const minLimit = Math.min(limitPerQuery * each.length, RESULTS_CAP)
  const hits = interleave(answers, Math.max(minLimit, Math.min(NAMED_CAP, named.size + others.length)))
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

/**
 * The best of each answer, then the second of each, and so on, with room for all named tools. An unlikely answer
 * contributes only its best tool.
 */
function interleave(answers: readonly ToolAnswer[], limit: number): SearchHit[] {
  const lists = answers.map(({ hits, unanswered }) => (unanswered ? hits.slice(0, 1) : hits))
  const named = lists.flatMap((hits) => hits.filter(({ score }) => score === 1))
  const ranks = Math.max(...lists.map((hits) => hits.length))
  const inOrder = Array.from({ length: ranks }, (_, rank) => lists.flatMap((hits) => hits[rank] ?? [])).flat()
  const chosenIds = new Set<string>()
  for (const { id } of [...named, ...inOrder]) if (chosenIds.size < limit) chosenIds.add(id)
  return inOrder.filter(({ id }) => chosenIds.delete(id))
}
