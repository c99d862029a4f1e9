import { describe, expect, it } from 'vitest'
import { type Features, rankScore, reciprocalRank, relevanceOf, sourceScore, usageLift } from '../../src/search/fuse.ts'

const features = (given: Partial<Features>): Features => ({
  lexical: 0,
  lexicalShare: 0,
  cosine: 0,
  covered: 0,
  nameCovered: 0,
  ...given,
})

describe('the formula of the source design', () => {
  it.each([
    // cosine × 10, plus 2 to 3 for words
    [{ cosine: 0.8, lexicalShare: 1 }, 0, 11],
    [{ cosine: 0.8, lexicalShare: 0.25 }, 0, 10.25],
    [{ cosine: 0.55 }, 0, 5.5],
    // half a point a call, three at most
    [{ cosine: 0.55 }, 1, 6],
    [{ cosine: 0.55 }, 6, 8.5],
    [{ cosine: 0.55 }, 1_000_000, 8.5],
    // under 0.2 a cosine counts nothing, under 5 the whole is dropped
    [{ cosine: 0.199, lexicalShare: 1 }, 6, 6],
    [{ cosine: 0.199, lexicalShare: 1 }, 0, 0],
    [{ cosine: 0.49 }, 0, 0],
    [{ cosine: 0.5 }, 0, 5],
  ] as const)('%j with %i calls is %d [DIG-42]', (given, calls, score) => {
    expect(sourceScore(features(given), calls, true)).toBeCloseTo(score, 6)
  })

  it('drops nothing where there are no vectors', () => {
    expect(sourceScore(features({ lexicalShare: 0.5 }), 0, false)).toBeCloseTo(2.5, 6)
  })
})

describe('the learned order', () => {
  const weights = { rank: { lexical: 2, cosine: 3 }, relevance: { lexical: 1, cosine: 2, bias: -1, least: 0.4 } }

  it('weighs what is known, and takes a weight that is missing for none', () => {
    expect(rankScore(features({ lexical: 0.5, cosine: 0.1, covered: 1 }), weights)).toBeCloseTo(1.3, 6)
  })

  it('gives a probability', () => {
    expect(relevanceOf(features({ lexical: 0.5, cosine: 0.25 }), weights)).toBeCloseTo(0.5, 6)
    expect(relevanceOf(features({ lexical: 1, cosine: 1 }), weights)).toBeCloseTo(0.880797, 6)
  })
})

describe('reciprocal ranks', () => {
  it('add up over the lanes that rank a tool', () => {
    expect(reciprocalRank([0, 2])).toBeCloseTo(1 / 11 + 1 / 13, 6)
    expect(reciprocalRank([undefined, 2])).toBeCloseTo(1 / 13, 6)
    expect(reciprocalRank([undefined])).toBe(0)
  })
})

it('usage is worth a little, and no more after six calls', () => {
  expect([0, 1, 6, 1_000_000, -5, Number.NaN].map(usageLift)).toEqual([
    0,
    0.05,
    expect.closeTo(0.3, 9),
    expect.closeTo(0.3, 9),
    0,
    0,
  ])
})
