import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  blockBytesOf,
  createKernel,
  createPlainKernel,
  createSimdKernel,
  FOUND_AT,
  type Kernel,
  ROWS_AT,
  SCORES_AT,
} from '../../src/search/simd-kernel.ts'
import { randomFrom } from '../fuzz.ts'

const script = new URL('../../scripts/wat.mjs', import.meta.url).href
const { assemble } = (await import(script)) as { assemble: (source: string) => Uint8Array }
const source = readFileSync(new URL('../../scripts/simd.wat', import.meta.url), 'utf8')

afterEach(() => vi.unstubAllGlobals())

/** Extreme and random bytes and scales in `blocks` blocks, a query of numbers up to `peak`. */
function fill(kernel: Kernel, blocks: number, width: number, peak: number): void {
  const random = randomFrom(width)
  kernel.reserve(ROWS_AT + blocks * blockBytesOf(width))
  const query = new Int16Array(kernel.buffer, 0, width)
  for (let index = 0; index < width; index++)
    query[index] = random() < 0.1 ? -peak : Math.round((random() * 2 - 1) * peak)
  const bytes = new Int8Array(kernel.buffer, ROWS_AT, blocks * blockBytesOf(width))
  for (let index = 0; index < bytes.length; index++)
    bytes[index] = random() < 0.1 ? -127 : Math.round(random() * 254) - 127
  for (let block = 0; block < blocks; block++) {
    const scales = new Float32Array(kernel.buffer, ROWS_AT + block * blockBytesOf(width) + 4 * width, 4)
    scales.set([random(), 0, Number.NaN, random() / 1000])
  }
}

describe('the WebAssembly module', () => {
  it('matches its source', () => {
    const text = readFileSync(new URL('../../src/search/simd-kernel.ts', import.meta.url), 'utf8')
    const literal = /const MODULE =((?:\s*'[^']*'(?: \+)?)+)/.exec(text)?.[1] ?? ''
    const base64 = [...literal.matchAll(/'([^']*)'/g)].map(([, part]) => part).join('')
    expect(base64).toBe(Buffer.from(assemble(source)).toString('base64'))
  })

  it('is a few hundred bytes', () => {
    expect(assemble(source)).toHaveLength(906)
  })
})

describe('a kernel', () => {
  it('computes dot products of rows anywhere, equally with and without SIMD', () => {
    const sums = [createSimdKernel()!, createPlainKernel()].map((kernel) => {
      fill(kernel, 64, 128, 4000)
      const list = ROWS_AT + 64 * blockBytesOf(128)
      kernel.reserve(list + 12)
      new Int32Array(kernel.buffer, list, 3).set([ROWS_AT + 700, ROWS_AT, ROWS_AT + 33])
      kernel.gather(list, 3, 128)
      return [...new Int32Array(kernel.buffer, SCORES_AT, 3)]
    })
    expect(sums[0]!.filter(Boolean)).toHaveLength(3)
    expect(sums[0]).toEqual(sums[1])
  })

  it('sums weighted rows anywhere, equally with and without SIMD', () => {
    const sums = [createSimdKernel()!, createPlainKernel()].map((kernel) => {
      fill(kernel, 64, 128, 4000)
      const list = ROWS_AT + 64 * blockBytesOf(128)
      kernel.reserve(list + 24)
      new Int32Array(kernel.buffer, list, 6).set([ROWS_AT + 700, 0, ROWS_AT, 0, ROWS_AT + 33, 0])
      const factors = new Float32Array(kernel.buffer, list, 6)
      factors[1] = 0.1
      factors[3] = -3.7
      factors[5] = 1 / 3
      new Float32Array(kernel.buffer, SCORES_AT, 128).fill(0.5)
      kernel.add(list, 3, 128)
      return [...new Float32Array(kernel.buffer, SCORES_AT, 128)]
    })
    expect(new Set(sums[0]).size).toBeGreaterThan(100)
    expect(sums[0]).toEqual(sums[1])
  })

  it.each([
    ['with SIMD', () => createSimdKernel()!],
    ['without', createPlainKernel],
  ])('adds to existing sums, %s', (_, create) => {
    const kernel = create()
    const rows = new Int8Array(kernel.buffer, ROWS_AT, 32)
    rows.set([1, -2, 127], 0)
    rows.set([10, 0, -128], 16)
    const list = ROWS_AT + 32
    new Int32Array(kernel.buffer, list, 4).set([ROWS_AT, 0, ROWS_AT + 16, 0])
    new Float32Array(kernel.buffer, list + 4, 1).set([2])
    new Float32Array(kernel.buffer, list + 12, 1).set([0.5])
    new Float32Array(kernel.buffer, SCORES_AT, 16).set([100, 0, 0, 7])
    kernel.add(list, 2, 16)
    expect([...new Float32Array(kernel.buffer, SCORES_AT, 5)]).toEqual([107, -4, 190, 7, 0])
  })

  it.each([
    [16, 1],
    [16, 1024],
    [48, 7],
    [128, 100],
    [384, 9],
    [1024, 5],
    [1536, 3],
    [3072, 5],
    [4096, 5],
  ])('scores equally with and without SIMD: %i dimensions, %i blocks', (width, blocks) => {
    const results = [createSimdKernel()!, createPlainKernel()].map((kernel) => {
      fill(kernel, blocks, width, Math.min(32_767, Math.floor((2 ** 31 - 1) / (127 * width))))
      const count = kernel.score(ROWS_AT, blocks, width, 1000)
      return {
        count,
        scores: [...new Float32Array(kernel.buffer, SCORES_AT, blocks * 4)],
        found: [...new Int32Array(kernel.buffer, FOUND_AT, count)],
      }
    })
    expect(results[0]!.scores.filter(Boolean).length).toBeGreaterThan(blocks)
    expect(results[0]).toEqual(results[1])
  })

  it.each([
    ['with SIMD', () => createSimdKernel()!],
    ['without', createPlainKernel],
  ])('has room for the widest query beside the most scores, %s', (_, create) => {
    const kernel = create()
    const blockBytes = blockBytesOf(4096)
    kernel.reserve(ROWS_AT + 1024 * blockBytes)
    new Int16Array(kernel.buffer, 0, 4096).fill(1)
    for (let block = 0; block < 1024; block++) {
      new Int8Array(kernel.buffer, ROWS_AT + block * blockBytes, 4 * 4096).fill(1)
      new Float32Array(kernel.buffer, ROWS_AT + block * blockBytes + 4 * 4096, 4).fill(1)
    }
    for (let time = 0; time < 2; time++) {
      expect(kernel.score(ROWS_AT, 1024, 4096, 4095)).toBe(1024)
      expect(new Set(new Float32Array(kernel.buffer, SCORES_AT, 4096))).toEqual(new Set([4096]))
      expect(new Int32Array(kernel.buffer, FOUND_AT, 1024).at(-1)).toBe(1023 * 16)
    }
  })

  it.each([
    ['with SIMD', () => createSimdKernel()!],
    ['without', createPlainKernel],
  ])('multiplies, adds up, scales, and lists the blocks above the bar, %s', (_, create) => {
    const kernel = create()
    const rows = (block: number) => new Int8Array(kernel.buffer, ROWS_AT + block * blockBytesOf(16), 64)
    const scales = (block: number) => new Float32Array(kernel.buffer, ROWS_AT + block * blockBytesOf(16) + 64, 4)
    new Int16Array(kernel.buffer, 0, 16).set([1000, -2000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3])
    rows(0).set([1, 2, 3], 0)
    rows(0).set([-127], 16)
    rows(0).set([127], 32 + 15)
    rows(0).set([5], 48)
    scales(0).set([1, 0.5, 2, Number.NaN])
    rows(1).set([4], 0)
    scales(1).fill(0.25)
    expect(kernel.score(ROWS_AT, 2, 16, 900)).toBe(1)
    expect([...new Float32Array(kernel.buffer, SCORES_AT, 8)]).toEqual([-3000, -63_500, 762, Number.NaN, 1000, 0, 0, 0])
    expect([...new Int32Array(kernel.buffer, FOUND_AT, 1)]).toEqual([16])
    expect(kernel.score(ROWS_AT, 2, 16, 1000)).toBe(0)
    expect(kernel.score(ROWS_AT, 2, 16, Number.NEGATIVE_INFINITY)).toBe(2)
  })

  it.each([
    ['with SIMD', () => createSimdKernel()!],
    ['without', createPlainKernel],
  ])('keeps its memory when it grows, %s', (_, create) => {
    const kernel = create()
    new Uint8Array(kernel.buffer).set([1, 2, 3], 65_500)
    kernel.reserve(1_000_000)
    expect(kernel.buffer.byteLength).toBeGreaterThanOrEqual(1_000_000)
    expect([...new Uint8Array(kernel.buffer, 65_500, 4)]).toEqual([1, 2, 3, 0])
    kernel.reserve(10)
    expect(kernel.buffer.byteLength).toBeGreaterThanOrEqual(1_000_000)
  })

  it('works without WebAssembly', () => {
    vi.stubGlobal('WebAssembly', undefined)
    expect(createSimdKernel()).toBeUndefined()
    expect(createKernel().score(ROWS_AT, 1, 16, 0)).toBe(0)
  })

  it('works if WebAssembly has no memory', () => {
    const { Module } = (globalThis as unknown as { WebAssembly: { Module: unknown } }).WebAssembly
    const Instance = () => {
      throw new RangeError('out of memory')
    }
    vi.stubGlobal('WebAssembly', { Module, Instance })
    expect(createSimdKernel()).toBeUndefined()
    expect(createKernel().score(ROWS_AT, 1, 16, 0)).toBe(0)
  })
})
