import { describe, expect, it } from 'vitest'
import { createPlainKernel, createSimdKernel } from '../../src/search/simd-kernel.ts'
import { createVectorIndex, loadVectorIndex, type VectorIndex } from '../../src/search/vector-index.ts'
import { unit, unitVectors } from './random.ts'

const all = () => true
const slotsOf = (hits: readonly { slot: number }[]) => hits.map(({ slot }) => slot)
const axis = (dims: number, at: number, value = 1) =>
  Float32Array.from({ length: dims }, (_, i) => (i === at ? value : 0))

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0
  for (let at = 0; at < a.length; at++) sum += a[at]! * b[at]!
  return sum
}

function indexOf(vectors: readonly Float32Array[], index = createVectorIndex(vectors[0]!.length)): VectorIndex {
  vectors.forEach((vector, slot) => {
    index.set(slot, vector)
  })
  return index
}

describe('search', () => {
  it('returns the nearest first, with their cosines', () => {
    const index = indexOf([unit([1, 0, 0]), unit([1, 1, 0]), unit([-1, 0, 0]), unit([0, 0, 1])])
    const hits = index.search(unit([1, 0, 0]), 10, all)
    expect(slotsOf(hits)).toEqual([0, 1, 3, 2])
    expect(hits.map(({ cosine }) => cosine)).toEqual([
      expect.closeTo(1, 5),
      expect.closeTo(Math.SQRT1_2, 5),
      expect.closeTo(0, 5),
      expect.closeTo(-1, 5),
    ])
  })

  it.each([1, 16, 20, 100, 128, 384, 1000, 1024, 1536, 3072, 4096])(
    'is equal with and without SIMD: %i dimensions',
    (dims) => {
      const vectors = unitVectors(150, dims, dims)
      const simd = indexOf(vectors, createVectorIndex(dims, createSimdKernel()!))
      const plain = indexOf(vectors, createVectorIndex(dims, createPlainKernel()))
      for (const query of unitVectors(3, dims, 99)) {
        const hits = simd.search(query, 40, all)
        expect(hits).toHaveLength(40)
        expect(hits).toEqual(plain.search(query, 40, all))
      }
      expect(Buffer.compare(simd.save(), plain.save())).toBe(0)
    },
  )

  it.each([
    [100, 0.01],
    [128, 0.01],
    [384, 0.006],
    [1024, 0.004],
    [1536, 0.004],
    [3072, 0.004],
    [4096, 0.004],
  ])('has a small error: %i dimensions, at most %f', (dims, bound) => {
    const vectors = unitVectors(150, dims, 7)
    const index = indexOf(vectors)
    for (const query of unitVectors(5, dims, 8))
      for (const { slot, cosine } of index.search(query, 150, all))
        expect(Math.abs(cosine - dot(query, vectors[slot]!))).toBeLessThan(bound)
  })

  it('finds 95 % of the ten nearest of exact search', () => {
    const vectors = unitVectors(2000, 128, 1)
    const index = indexOf(vectors)
    const queries = unitVectors(20, 128, 2)
    const shares = queries.map((query) => {
      const exact = vectors
        .map((vector, slot) => ({ slot, cosine: dot(query, vector) }))
        .sort((a, b) => b.cosine - a.cosine)
        .slice(0, 10)
      const found = new Set(slotsOf(index.search(query, 10, all)))
      return exact.filter(({ slot }) => found.has(slot)).length / 10
    })
    expect(shares.reduce((sum, share) => sum + share, 0) / shares.length).toBeGreaterThanOrEqual(0.95)
  })

  it.each([1024, 4096])('neither overflows nor exceeds 1 with all of %i dimensions at their maximum', (dims) => {
    const index = indexOf([unit(Array(dims).fill(1)), unit(Array(dims).fill(-1))])
    expect(index.search(unit(Array(dims).fill(1)), 2, all)).toEqual([
      { slot: 0, cosine: expect.closeTo(1, 5) },
      { slot: 1, cosine: expect.closeTo(-1, 5) },
    ])
  })

  it('fills the answer with accepted slots, however rare', () => {
    const vectors = unitVectors(6000, 32, 3)
    const index = indexOf(vectors)
    const [query] = unitVectors(1, 32, 4)
    const everything = index.search(query!, 6000, all)
    const rare = (slot: number) => slot % 500 === 7
    expect(index.search(query!, 5, rare)).toEqual(everything.filter(({ slot }) => rare(slot)).slice(0, 5))
    expect(index.search(query!, 50, rare)).toHaveLength(12)
    expect(index.search(query!, 50, () => false)).toEqual([])
  })

  it('checks only slots that would be in the answer', () => {
    const index = indexOf(unitVectors(6000, 32, 3))
    const asked: number[] = []
    index.search(unitVectors(1, 32, 4)[0]!, 10, (slot) => asked.push(slot) > 0)
    expect(asked.length).toBeLessThan(600)
    expect(new Set(asked).size).toBe(asked.length)
  })

  it('returns equal vectors in slot order, up to the limit', () => {
    const index = indexOf(Array.from({ length: 10_000 }, () => axis(16, 0)))
    expect(slotsOf(index.search(axis(16, 0), 3, all))).toEqual([0, 1, 2])
    expect(index.search(axis(16, 0), 0, all)).toEqual([])
    expect(index.search(axis(16, 0), -1, all)).toEqual([])
    expect(index.search(axis(16, 0), Number.POSITIVE_INFINITY, all)).toHaveLength(10_000)
  })

  it('finds nothing in an empty index', () => {
    expect(createVectorIndex(128).search(axis(128, 0), 10, all)).toEqual([])
  })

  it('treats zero vectors as far from everything', () => {
    const index = indexOf([new Float32Array(16), axis(16, 0), axis(16, 0, -1)])
    expect(slotsOf(index.search(axis(16, 0), 3, all))).toEqual([1, 0, 2])
    expect(index.cosines([0], axis(16, 0))[0]).toBe(0)
    expect(index.search(new Float32Array(16), 3, all).map(({ cosine }) => Math.abs(cosine))).toEqual([0, 0, 0])
  })
})

describe('a slot', () => {
  it('is counted, cleared and set again', () => {
    const index = indexOf(Array.from({ length: 6 }, (_, at) => axis(16, at)))
    expect(index.size).toBe(6)
    index.clear(3)
    index.clear(3)
    expect([index.size, index.has(3), index.has(2)]).toEqual([5, false, true])
    expect(index.cosines([3], axis(16, 3))[0]).toBe(0)
    expect(slotsOf(index.search(axis(16, 3), 10, all))).toEqual([0, 1, 2, 4, 5])
    index.set(3, axis(16, 15))
    expect(index.search(axis(16, 15), 1, all)).toEqual([{ slot: 3, cosine: expect.closeTo(1, 5) }])
    expect(index.search(axis(16, 3), 1, all)[0]!.cosine).toBe(0)
    index.set(3, axis(16, 14))
    expect(index.size).toBe(6)
  })

  it('may be any natural number', () => {
    const index = createVectorIndex(16)
    index.set(20_001, axis(16, 1))
    index.set(5, axis(16, 2))
    expect(index.size).toBe(2)
    expect(slotsOf(index.search(axis(16, 1), 10, all))).toEqual([20_001, 5])
    expect([index.has(20_000), index.has(20_001), index.has(1e9), index.has(-1), index.has(0.5)]).toEqual([
      false,
      true,
      false,
      false,
      false,
    ])
    index.clear(1e9)
    for (const slot of [-1, 0.5, Number.NaN]) expect(() => index.set(slot, axis(16, 0))).toThrow(RangeError)
  })

  it.each([
    ['with SIMD', () => createSimdKernel()!],
    ['without', createPlainKernel],
  ])('keeps its vector while memory grows, %s', (_, create) => {
    const vectors = unitVectors(5000, 48, 5)
    const index = indexOf(vectors, createVectorIndex(48, create()))
    for (const slot of [0, 1, 1234, 4999])
      expect(index.search(vectors[slot]!, 1, all)).toEqual([{ slot, cosine: expect.closeTo(1, 2) }])
  })

  it('has the cosine that search returns', () => {
    const index = indexOf(unitVectors(50, 100, 6))
    const [query] = unitVectors(1, 100, 7)
    const hits = index.search(query!, 50, all)
    expect(index.cosines(slotsOf(hits), query!)).toEqual(hits.map(({ cosine }) => cosine))
    expect(index.cosines([31], query!)[0]).toBe(hits.find(({ slot }) => slot === 31)!.cosine)
    expect(index.cosines([], query!)).toEqual([])
  })

  it('rejects another number of dimensions, and infinite values', () => {
    const index = indexOf([axis(16, 0)])
    for (const wrong of [axis(15, 0), axis(17, 0), axis(16, 0, Number.NaN), axis(16, 0, Number.POSITIVE_INFINITY)]) {
      expect(() => index.set(0, wrong)).toThrow(RangeError)
      expect(() => index.search(wrong, 1, all)).toThrow(RangeError)
      expect(() => index.cosines([0], wrong)[0]).toThrow(RangeError)
    }
    expect(index.cosines([0], axis(16, 0))[0]).toBeCloseTo(1, 5)
    for (const dims of [0, -16, 1.5, 4097, Number.NaN]) expect(() => createVectorIndex(dims)).toThrow(RangeError)
  })
})

describe('a saved index', () => {
  const vectors = unitVectors(1003, 100, 10)
  const index = indexOf(vectors)
  index.clear(17)
  index.set(30, new Float32Array(100))
  const saved = index.save()
  const [query] = unitVectors(1, 100, 11)

  it('is equal after loading, from any memory position, with SIMD or without', () => {
    const shifted = Buffer.alloc(saved.length + 3)
    shifted.set(saved, 3)
    for (const loaded of [
      loadVectorIndex(saved),
      loadVectorIndex(shifted.subarray(3)),
      loadVectorIndex(saved, createPlainKernel()),
    ]) {
      expect([loaded.dims, loaded.size, loaded.has(16), loaded.has(17)]).toEqual([100, 1002, true, false])
      expect(loaded.search(query!, 100, all)).toEqual(index.search(query!, 100, all))
      expect(Buffer.compare(loaded.save(), saved)).toBe(0)
    }
  })

  it('takes one byte per dimension and four per slot', () => {
    expect(saved).toHaveLength(36 + 1004 * (112 + 4))
  })

  it('can be changed after loading, and is a copy', () => {
    const loaded = loadVectorIndex(saved)
    loaded.set(17, query!)
    loaded.set(5000, query!)
    loaded.clear(0)
    expect(loaded.size).toBe(1003)
    expect(slotsOf(loaded.search(query!, 2, all))).toEqual([17, 5000])
    expect(index.size).toBe(1002)
    expect(Buffer.compare(index.save(), saved)).toBe(0)
  })

  it('may be empty', () => {
    const loaded = loadVectorIndex(createVectorIndex(20).save())
    expect([loaded.dims, loaded.size]).toEqual([20, 0])
    loaded.set(0, axis(20, 19))
    expect(slotsOf(loaded.search(axis(20, 19), 5, all))).toEqual([0])
  })

  it('stays usable after saving', () => {
    const small = indexOf([unit([1, 2, 3])])
    const before = small.search(unit([3, 2, 1]), 1, all)
    small.save()
    expect(small.search(unit([3, 2, 1]), 1, all)).toEqual(before)
  })

  it('is rejected when truncated, too long or foreign', () => {
    for (const length of [0, 1, 35, 36, 37, saved.length - 1])
      expect(() => loadVectorIndex(saved.subarray(0, length))).toThrow(RangeError)
    expect(() => loadVectorIndex(Buffer.concat([saved, Buffer.alloc(1)]))).toThrow(RangeError)
    expect(() => loadVectorIndex(Buffer.from('{"vectors":[]}'.repeat(10)))).toThrow('not an index of this version')
    expect(() => loadVectorIndex(new Uint8Array(1000).fill(255))).toThrow('not an index of this version')
  })

  it('is rejected after a one-bit change of the largest vectors', () => {
    const wide = indexOf(Array.from({ length: 4 }, () => unit(Array(4096).fill(1)))).save()
    for (let at = 36; at < 36 + 4 * 4096; at += 97) {
      const damaged = wide.slice()
      damaged[at]! ^= 1
      expect(() => loadVectorIndex(damaged), `byte ${at}`).toThrow('damaged')
    }
  })

  it('is rejected when any relevant byte has changed', () => {
    for (const at of [0, 5, 8, 12, 16, 19, 20, 24, 28, 32, 36, 37, 36 + 64 * 7, 36 + 4 * 112 + 1, 50_001]) {
      for (const change of [1, 128]) {
        const damaged = saved.slice()
        damaged[at]! ^= change
        expect(() => loadVectorIndex(damaged), `byte ${at}`).toThrow(RangeError)
      }
    }
    const swapped = saved.slice()
    swapped.copyWithin(36, 36 + 464, 36 + 928)
    swapped.set(saved.subarray(36, 36 + 464), 36 + 464)
    expect(() => loadVectorIndex(swapped)).toThrow('damaged')
    expect(() => loadVectorIndex(saved.slice().fill(0, 4096, 8192))).toThrow('damaged')
  })
})
