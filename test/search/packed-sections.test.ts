import { describe, expect, it } from 'vitest'
import { packSections, unpackSections, withRoom } from '../../src/search/packed-sections.ts'

const MAGIC = 0x1234
const packed = () => packSections(MAGIC, 3, [new Uint8Array([1, 2, 3]), new Int32Array([-5, 6]), new Uint32Array(0)])

describe('sections', () => {
  it('are returned unchanged', () => {
    const [bytes, numbers, none] = unpackSections(MAGIC, 3, packed(), 3)
    expect([...(bytes ?? [])]).toEqual([1, 2, 3])
    expect(numbers?.byteLength).toBe(8)
    expect(none?.byteLength).toBe(0)
  })

  it('may be anywhere in a larger buffer', () => {
    const whole = packed()
    const larger = new Uint8Array(whole.length + 10)
    larger.set(whole, 3)
    const [bytes] = unpackSections(MAGIC, 3, larger.subarray(3, 3 + whole.length), 3)
    expect([...(bytes ?? [])]).toEqual([1, 2, 3])
  })

  it('reject another kind, version or number', () => {
    expect(() => unpackSections(MAGIC + 1, 3, packed(), 3)).toThrow('not an index of this version')
    expect(() => unpackSections(MAGIC, 4, packed(), 3)).toThrow('not an index of this version')
    expect(() => unpackSections(MAGIC, 3, packed(), 2)).toThrow('the index is cut short')
  })

  it('reject truncation anywhere', () => {
    const whole = packed()
    for (let length = 0; length < whole.length; length++)
      expect(() => unpackSections(MAGIC, 3, whole.slice(0, length), 3)).toThrow()
  })

  it('reject any changed byte', () => {
    for (let at = 0; at < packed().length; at++) {
      const whole = packed()
      whole[at] = (whole[at] ?? 0) ^ 0x10
      expect(() => unpackSections(MAGIC, 3, whole, 3)).toThrow()
    }
  })
})

describe('withRoom', () => {
  it('keeps the numbers and their type', () => {
    const larger = withRoom(new Int32Array([7, 8]), 3)
    expect(larger).toBeInstanceOf(Int32Array)
    expect([...larger.subarray(0, 3)]).toEqual([7, 8, 0])
    expect(withRoom(larger, 3)).toBe(larger)
  })
})
