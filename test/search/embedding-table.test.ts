import { describe, expect, it } from 'vitest'
import { type EmbeddingTable, openTable } from '../../src/search/embedding-table.ts'
import { documentOf } from '../../src/search/search-document.ts'
import { createPlainKernel } from '../../src/search/simd-kernel.ts'
import { toolOf } from './fixture.ts'
import { packedTable, tableByHand } from './table-fixture.ts'

const dot = (a: Float32Array, b: Float32Array): number => a.reduce((sum, value, at) => sum + value * (b[at] ?? 0), 0)
const near = (table: EmbeddingTable, a: string, b: string): number => dot(table.query(a), table.query(b))

describe('a text vector', () => {
  const table = tableByHand()

  it('is near texts with the same meaning and far from others, in any word form', () => {
    expect(near(table, 'remember', 'memories')).toBeCloseTo(1, 5)
    expect(near(table, 'remember', 'weather')).toBeCloseTo(0, 5)
    expect(near(table, 'remember the weather', 'memory')).toBeCloseTo(Math.SQRT1_2, 5)
  })

  it('has length 1, or 0 if no word is known', () => {
    expect(dot(table.query('read files'), table.query('read files'))).toBeCloseTo(1, 5)
    for (const nothing of ['', ' \u0000 ', '\ud800', '🦜'])
      expect([...table.query(nothing)].every((one) => one === 0)).toBe(true)
  })

  it('of a tool combines its fields', () => {
    const tool = table.document(documentOf(toolOf('memory.recall', 'Look up facts stored earlier.')))
    expect(dot(tool, table.query('keepsake'))).toBeGreaterThan(0.9)
  })

  it('of a megabyte uses its beginning', () => {
    const long = table.query(`remember ${'weather '.repeat(200_000)}`)
    expect(Number.isFinite(dot(long, long))).toBe(true)
    expect(dot(long, table.query('weather'))).toBeGreaterThan(0.5)
  })
})

describe('tool word vectors', () => {
  for (const [name, table] of [
    ['in WebAssembly', tableByHand()],
    ['in plain JavaScript', openTable(packedTable(), createPlainKernel())],
  ] as const)
    it(`are compared in place, ${name}`, () => {
      const out = new Float32Array(3)
      const others = Int32Array.from(['memori', 'weather', 'unheardof'], (stem) => table.addressOf(stem, true))
      table.choose(others, 3)
      table.cosines(table.addressOf('memori', false), out)
      expect([...out].map((one) => Math.round(one * 100) / 100)).toEqual([1, 0, 0])
    })

  it('of unknown words are kept for tools, and not for queries', () => {
    const table = tableByHand()
    expect(table.addressOf('zebra', true)).toBe(table.addressOf('zebra', true))
    expect(table.addressOf('gnu', false)).toBe(table.addressOf('yak', false))
    expect(table.rarityOf('zebra')).toBe(1)
  })
})

describe('a model file', () => {
  it('with invalid settings or weights is rejected when opened', () => {
    const changed = (from: string, to: string): Uint8Array => {
      const bytes = Buffer.from(packedTable())
      bytes.write(to, bytes.indexOf(from), 'latin1')
      return bytes
    }
    expect(() => openTable(changed('"fusion"', '"fuzion"'))).toThrow('settings that cannot be used')
    expect(() => openTable(changed('"fields"', '"fieldz"'))).toThrow('settings that cannot be used')
    expect(() => openTable(packedTable({ queryWeight: Number.NaN }))).toThrow('weights that are no numbers')
  })

  it('identifies itself', () => {
    expect(tableByHand({ id: 'mine', least: 0.3 })).toMatchObject({ id: 'mine', dims: 16 })
    expect(tableByHand({ least: 0.3 }).settings.fusion.relevance['least']).toBe(0.3)
  })

  it('may be unaligned', () => {
    const bytes = packedTable()
    const shifted = new Uint8Array(bytes.length + 1)
    shifted.set(bytes, 1)
    expect(near(openTable(shifted.subarray(1)), 'remember', 'memory')).toBeCloseTo(1, 5)
  })

  it.each([
    ['nothing', () => new Uint8Array(0)],
    ['another kind of file', () => new TextEncoder().encode('{"some": "JSON, and long enough"}   ')],
    ['half a file', (bytes: Uint8Array) => bytes.slice(0, bytes.length >> 1)],
    ['another version', (bytes: Uint8Array) => bytes.map((byte, at) => (at === 4 ? 99 : byte))],
  ])('%s is rejected', (_what, damage) => {
    expect(() => openTable(damage(packedTable()))).toThrow(RangeError)
  })
})
