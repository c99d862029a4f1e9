import { describe, expect, it } from 'vitest'
import {
  type Features,
  rankScore,
  reciprocalRank,
  relevanceOf,
  shownRelevanceOf,
  sourceScore,
  usageLift,
} from '../../src/search/fuse-rankings.ts'

const features = (given: Partial<Features>): Features => ({
  lexical: 0,
  lexicalShare: 0,
  cosine: 0,
  covered: 0,
  nameCovered: 0,
  encoded: 0,
  known: 0,
  ownerNamed: 0,
  ...given,
})

describe('the original formula', () => {
  it.each([
    // cosine × 10, plus 2 to 3 for words
    [{ cosine: 0.8, lexicalShare: 1 }, 0, 11],
    [{ cosine: 0.8, lexicalShare: 0.25 }, 0, 10.25],
    [{ cosine: 0.55 }, 0, 5.5],
    // half a point per call, three at most
    [{ cosine: 0.55 }, 1, 6],
    [{ cosine: 0.55 }, 6, 8.5],
    [{ cosine: 0.55 }, 1_000_000, 8.5],
    // a cosine under 0.2 counts nothing, and a total under 5 is dropped
    [{ cosine: 0.199, lexicalShare: 1 }, 6, 6],
    [{ cosine: 0.199, lexicalShare: 1 }, 0, 0],
    [{ cosine: 0.49 }, 0, 0],
    [{ cosine: 0.5 }, 0, 5],
  ] as const)('%j with %i calls is %d', (given, calls, score) => {
    expect(sourceScore(features(given), calls, true)).toBeCloseTo(score, 6)
  })

  it('drops nothing if there are no vectors', () => {
    expect(sourceScore(features({ lexicalShare: 0.5 }), 0, false)).toBeCloseTo(2.5, 6)
  })
})

describe('the learned ranking score', () => {
  const weights = { rank: { lexical: 2, cosine: 3 }, relevance: { lexical: 1, cosine: 2, bias: -1, least: 0.4 } }

  it('weighs known features, and treats a missing weight as zero', () => {
    expect(rankScore(features({ lexical: 0.5, cosine: 0.1, covered: 1 }), weights)).toBeCloseTo(1.3, 6)
  })

  it('yields a probability', () => {
    expect(relevanceOf(features({ lexical: 0.5, cosine: 0.25 }), weights)).toBeCloseTo(0.5, 6)
    expect(relevanceOf(features({ lexical: 1, cosine: 1 }), weights)).toBeCloseTo(0.880797, 6)
  })

  it('shows a relevance that also counts how far a tool is ahead, within limits', () => {
    const one = features({ lexical: 1, cosine: 1 })
    expect(shownRelevanceOf(one, 5, weights)).toBe(relevanceOf(one, weights))
    const more = { ...weights, shown: { evidence: 0.5, margin: 1, bias: -1 } }
    expect(shownRelevanceOf(one, 0, more)).toBeCloseTo(0.5, 6)
    expect(shownRelevanceOf(one, 3, more)).toBeCloseTo(0.952574, 6)
    expect(shownRelevanceOf(one, Number.POSITIVE_INFINITY, more)).toBe(shownRelevanceOf(one, 3, more))
    expect(shownRelevanceOf(one, -1, more)).toBeCloseTo(0.268941, 6)
  })
})

describe('reciprocal ranks', () => {
  it('are summed over the retrievers that rank a tool', () => {
    expect(reciprocalRank([0, 2])).toBeCloseTo(1 / 11 + 1 / 13, 6)
    expect(reciprocalRank([undefined, 2])).toBeCloseTo(1 / 13, 6)
    expect(reciprocalRank([undefined])).toBe(0)
  })
})

it('usage counts a little, and no more after six calls', () => {
  expect([0, 1, 6, 1_000_000, -5, Number.NaN].map(usageLift)).toEqual([
    0,
    0.05,
    expect.closeTo(0.3, 9),
    expect.closeTo(0.3, 9),
    0,
    0,
  ])
})
