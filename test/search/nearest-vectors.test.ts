import { expect, it } from 'vitest'
import { createNearest } from '../../src/search/nearest-vectors.ts'
import { randomFrom } from '../fuzz.ts'

function nearestOf(limit: number, scores: readonly number[]) {
  const nearest = createNearest(limit)
  scores.forEach((score, slot) => {
    if (score > nearest.bar) nearest.add(score, slot)
  })
  return nearest.take(1)
}

it('keeps the best scores, best first', () => {
  expect(nearestOf(3, [0.25, -1, 0.75, 0.5, 0, 0.875])).toEqual([
    { slot: 5, cosine: 0.875 },
    { slot: 2, cosine: 0.75 },
    { slot: 3, cosine: 0.5 },
  ])
})

it('prefers the lower of equal slots', () => {
  expect(nearestOf(3, [0, 0.5, 0.5, 0, 0.5, 0.5, 1]).map(({ slot }) => slot)).toEqual([6, 1, 2])
  expect(nearestOf(4, [0, 0, 0, 0, 0, 0]).map(({ slot }) => slot)).toEqual([0, 1, 2, 3])
})

it.each([1, 2, 7, 50, 1000, 2000])('agrees with sorting: the best %i of 1000', (limit) => {
  const random = randomFrom(limit)
  const scores = Array.from({ length: 1000 }, () => Math.floor(random() * 300) / 256)
  const sorted = scores.map((cosine, slot) => ({ slot, cosine })).sort((a, b) => b.cosine - a.cosine || a.slot - b.slot)
  expect(nearestOf(limit, scores)).toEqual(sorted.slice(0, limit))
})

it('keeps nothing with a limit of zero', () => {
  expect(createNearest(0).bar).toBe(Number.POSITIVE_INFINITY)
  expect(nearestOf(0, [1, 2])).toEqual([])
})

it('scales its results', () => {
  const nearest = createNearest(2)
  nearest.add(2, 7)
  expect(nearest.take(0.25)).toEqual([{ slot: 7, cosine: 0.5 }])
  expect(nearest.take(0.25)).toEqual([])
})
