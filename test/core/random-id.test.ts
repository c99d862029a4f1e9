import { expect, test } from 'vitest'
import { randomId, toId } from '../../src/core/random-id.ts'

test('an id has 128 bits in 25 characters, for any bits', () => {
  expect(toId(Buffer.alloc(16))).toBe('0000000000000000000000000')
  expect(toId(Buffer.alloc(16, 0xff))).toBe('f5lxx1zz5pnorynqglhzmsp33')
  const all = Array.from({ length: 1_000 }, randomId)
  expect(all.filter((one) => !/^[0-9a-z]{25}$/.test(one))).toEqual([])
  expect(new Set(all).size).toBe(1_000)
})
