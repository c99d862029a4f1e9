import type { Candidate, Candidates } from './candidates.ts'
import { type Fusion, type FusionWeights, relevanceOf, shownRelevanceOf } from './fuse-rankings.ts'
import type { RankedCandidate } from './rank-candidates.ts'
import { isOtherLanguage } from './tokenize.ts'
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

/** @param hasCustomModel true if a custom model takes part */
export function rankingOf(hasCustomModel: boolean, hasModel: boolean): Ranking {
  if (hasCustomModel) return 'semantic'
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
  const { matches, weights, hasCustomModel } = found
  const named = ranked.filter(({ candidate }) => candidate.exactName)
  const maxHits = Math.max(limit, Math.min(NAMED_CAP, named.length))
  const best = ranked.slice(0, maxHits)
  const relevances = best.map(({ candidate }) => relevanceFor(candidate, weights, ranker))
  // The weights do not apply to cosines alone, to the original formula, or to what a custom model finds.
  const isLearned = ranker !== 'vector' && fusion !== 'source' && !hasCustomModel
  const learned = isLearned ? weights : undefined
  const minRelevance = learned ? minRelevanceFor(query, learned) : 0
  const isUnlikely =
    ranked.length === 0 ||
    Math.max(0, ...relevances.slice(0, limit)) < minRelevance ||
    (learned !== undefined && hasUnknownWordsOnly(query, found))
  const [bestScore = 0, secondScore = Number.NEGATIVE_INFINITY] = ranked
    .filter(({ candidate }) => !candidate.exactName)
    .map(({ fused }) => fused)

  /** The probability that a likely tool is right. It depends on how far the tool is ahead of others, or behind the best. */
  function shownRelevance({ candidate: { features, exactName }, fused }: RankedCandidate, at: number): number {
    const isProbability = learned !== undefined && !exactName
    // Among unlikely tools, the margin says nothing: one can be far ahead of the others, and still wrong.
    if (!isProbability || isUnlikely) return relevances[at] as number
    const margin = fused === bestScore ? fused - secondScore : fused - bestScore
    return Math.min(HIGHEST, shownRelevanceOf(features, margin, learned))
  }

  const scores = makeNonIncreasing(best.map(shownRelevance), isUnlikely ? minRelevance : 1)
  const hits = best.map(
    ({ candidate, fused }, at): SearchHit => ({
      id: idOf(candidate.slot),
      score: scores[at] as number,
      matched: matches.termsOf(candidate.slot),
      ...(explain ? { why: whyOf(candidate, fused) } : {}),
    }),
  )
  const isSure = learned !== undefined && named.length === 0 && (scores[0] ?? 0) >= BRIEF.sure
  const isFarBehind = (at: number): boolean => bestScore - (best[at]?.fused ?? 0) > BRIEF.most
  const more = named.slice(maxHits).map(({ candidate }) => idOf(candidate.slot))
  return {
    hits: brief && isSure ? hits.filter((_, at) => !isFarBehind(at)) : hits,
    ranking: rankingOf(hasCustomModel, weights !== undefined),
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
  return isOtherLanguage(query) ? leastForeign : least
}

/** Such a query is similar to some tool only by chance. */
const hasUnknownWordsOnly = (query: string, { matches, table }: Candidates): boolean =>
  matches.hits.length === 0 && table !== undefined && !table.knows(query)

function relevanceFor(
  { features, exactName, customCosine }: Candidate,
  weights: FusionWeights | undefined,
  ranker: ToolQueryOptions['ranker'],
): number {
  if (exactName) return 1
  if (ranker === 'vector') return Math.min(HIGHEST, Math.max(0, customCosine ?? features.cosine))
  return Math.min(HIGHEST, weights ? relevanceOf(features, weights) : features.lexical)
}

function whyOf({ features, exactName, calls, customCosine }: Candidate, score: number): NonNullable<SearchHit['why']> {
  // The score of a tool that the query names may be minus infinity, because such a tool comes first anyway.
  const fused = Number.isFinite(score) ? score : 0
  return { ...features, exactName, calls, ...(customCosine === undefined ? {} : { external: customCosine }), fused }
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
