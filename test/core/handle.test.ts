import { expect, test } from 'vitest'
import { asHandle, newHandle } from '../../src/core/handle.ts'

test('a handle is 128 bits in 25 digits, whatever the bits are', () => {
  expect(asHandle(Buffer.alloc(16))).toBe('0000000000000000000000000')
  expect(asHandle(Buffer.alloc(16, 0xff))).toBe('f5lxx1zz5pnorynqglhzmsp33')
  const all = Array.from({ length: 1_000 }, newHandle)
  expect(all.filter((one) => !/^[0-9a-z]{25}$/.test(one))).toEqual([])
  expect(new Set(all).size).toBe(1_000)
})
