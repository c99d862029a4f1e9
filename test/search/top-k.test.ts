import { describe, expect, it } from 'vitest'
import { createTopK } from '../../src/search/top-k.ts'

describe('keepBest', () => {
  it('keeps what sorting would put first', () => {
    const scores = Array.from({ length: 500 }, (_, slot) => ((slot * 7919) % 97) / 97)
    const best = createTopK(10)
    scores.forEach((score, slot) => {
      if (best.wants(slot, score)) best.add(slot, score)
    })
    const sorted = scores.map((score, slot) => ({ slot, score })).sort((a, b) => b.score - a.score || a.slot - b.slot)
    expect(best.list()).toEqual(sorted.slice(0, 10))
  })

  it('prefers the lower slot of equal scores, in any order', () => {
    const best = createTopK(2)
    for (const slot of [5, 3, 9, 1]) if (best.wants(slot, 0.5)) best.add(slot, 0.5)
    expect(best.list().map(({ slot }) => slot)).toEqual([1, 3])
  })

  it('reports the score needed to be kept', () => {
    const best = createTopK(1)
    expect(best.least).toBe(0)
    best.add(4, 0.7)
    expect(best.least).toBe(0.7)
    expect(best.wants(5, 0.7)).toBe(false)
    expect(createTopK(0).wants(1, 1)).toBe(false)
  })
})
