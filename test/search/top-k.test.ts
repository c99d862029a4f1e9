import { describe, expect, it } from 'vitest'
import { createTopK } from '../../src/search/top-k.ts'
import { randomFrom } from '../fuzz.ts'

function bestOf(limit: number, scores: readonly number[]) {
  const best = createTopK(limit)
  scores.forEach((score, slot) => {
    if (score > best.least) best.add(slot, score)
  })
  return best.list()
}

describe('createTopK', () => {
  it('keeps what sorting would put first', () => {
    const scores = Array.from({ length: 500 }, (_, slot) => ((slot * 7919) % 97) / 97)
    const best = createTopK(10)
    scores.forEach((score, slot) => {
      if (best.accepts(slot, score)) best.add(slot, score)
    })
    const sorted = scores.map((score, slot) => ({ slot, score })).sort((a, b) => b.score - a.score || a.slot - b.slot)
    expect(best.list()).toEqual(sorted.slice(0, 10))
  })

  it('prefers the lower slot of equal scores, in any order', () => {
    const best = createTopK(2)
    for (const slot of [5, 3, 9, 1]) if (best.accepts(slot, 0.5)) best.add(slot, 0.5)
    expect(best.list().map(({ slot }) => slot)).toEqual([1, 3])
  })

  it('reports the score needed to be kept', () => {
    const best = createTopK(1)
    expect(best.least).toBe(Number.NEGATIVE_INFINITY)
    best.add(4, 0.7)
    expect(best.least).toBe(0.7)
    expect(best.accepts(5, 0.7)).toBe(false)
    expect(createTopK(0).accepts(1, 1)).toBe(false)
  })

  it('keeps the best scores, best first', () => {
    expect(bestOf(3, [0.25, -1, 0.75, 0.5, 0, 0.875])).toEqual([
      { slot: 5, score: 0.875 },
      { slot: 2, score: 0.75 },
      { slot: 3, score: 0.5 },
    ])
  })

  it('prefers the lower of equal slots', () => {
    expect(bestOf(3, [0, 0.5, 0.5, 0, 0.5, 0.5, 1]).map(({ slot }) => slot)).toEqual([6, 1, 2])
    expect(bestOf(4, [0, 0, 0, 0, 0, 0]).map(({ slot }) => slot)).toEqual([0, 1, 2, 3])
  })

  it.each([1, 2, 7, 50, 1000, 2000])('agrees with sorting: the best %i of 1000', (limit) => {
    const random = randomFrom(limit)
    const scores = Array.from({ length: 1000 }, () => Math.floor(random() * 300) / 256)
    const sorted = scores.map((score, slot) => ({ slot, score })).sort((a, b) => b.score - a.score || a.slot - b.slot)
    expect(bestOf(limit, scores)).toEqual(sorted.slice(0, limit))
  })

  it('keeps nothing with a limit of zero', () => {
    expect(createTopK(0).least).toBe(Number.POSITIVE_INFINITY)
    expect(bestOf(0, [1, 2])).toEqual([])
  })
})
