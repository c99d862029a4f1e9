import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { transformSync } from 'esbuild'
import { describe, expect, it } from 'vitest'
import { ShortLivedMap } from '../../src/core/short-lived-map.ts'

/** Bytes that are left of 10,000 entries, of which 32 are there at a time, without a full garbage collection. */
function bytesLeft(map: 'Map' | 'ShortLivedMap'): number {
  const source = readFileSync(new URL('../../src/core/short-lived-map.ts', import.meta.url), 'utf8')
  const code = `
    ${transformSync(source, { loader: 'ts' }).code}
    const map = new ${map}()
    let n = 0
    const add = () => {
      map.set(n, new Array(200).fill(n))
      map.delete(n++ - 32)
    }
    while (n < 1_000) add()
    gc()
    const before = process.memoryUsage().heapUsed
    while (n < 11_000) add()
    gc({ type: 'minor' })
    gc({ type: 'minor' })
    console.log(process.memoryUsage().heapUsed - before)`
  const args = ['--expose-gc', '--input-type=module', '--eval', code]
  return Number(execFileSync(process.execPath, args, { encoding: 'utf8' }))
}

describe('a map for entries that are soon deleted', () => {
  it('behaves like a Map, however often entries come and go', () => {
    const [map, model] = [new ShortLivedMap<number, string>(), new Map<number, string>()]
    for (let n = 0; n < 5_000; n++) {
      map.set(n, `${n}`)
      model.set(n, `${n}`)
      expect(map.delete(n - 40)).toBe(model.delete(n - 40))
      if (n % 500 === 0) expect([...map]).toEqual([...model])
    }
    expect(map.size).toBe(40)
    expect([...map.keys()]).toEqual([...model.keys()])
    expect([...map.values()]).toEqual([...model.values()])
    expect([map.get(4_999), map.has(4_999), map.get(1), map.has(1)]).toEqual(['4999', true, undefined, false])
    map.clear()
    expect([map.size, ...map]).toEqual([0])
  })

  it('keeps more entries than it deletes before it copies itself', () => {
    const map = new ShortLivedMap<number, number>()
    for (let n = 0; n < 4_000; n++) map.set(n, n)
    for (let n = 0; n < 3_000; n++) map.delete(n)
    expect([...map.keys()]).toEqual(Array.from({ length: 1_000 }, (_, n) => n + 3_000))
  })

  it('frees deleted entries without a full garbage collection', () => {
    expect(bytesLeft('ShortLivedMap')).toBeLessThan(4_000_000)
  })
})
