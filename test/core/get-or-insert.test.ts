import { describe, expect, it, vi } from 'vitest'
import { getOrInsert } from '../../src/core/get-or-insert.ts'

describe('getOrInsert', () => {
  it('makes a missing value once and stores it', () => {
    const lists = new Map<string, number[]>()
    const make = vi.fn(() => [])
    getOrInsert(lists, 'a', make).push(1)
    getOrInsert(lists, 'a', make).push(2)
    expect(lists.get('a')).toEqual([1, 2])
    expect(make).toHaveBeenCalledTimes(1)
  })

  it('returns a stored value that is false, and works with a WeakMap', () => {
    const key = {}
    const answers = new WeakMap([[key, false]])
    expect(getOrInsert(answers, key, () => true)).toBe(false)
  })
})
