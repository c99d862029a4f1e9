import { describe, expect, it } from 'vitest'
import { setNewest } from '../../src/core/drop-oldest.ts'

describe('setNewest', () => {
  it('moves an existing entry to the end, and deletes the oldest above the maximum', () => {
    const map = new Map([
      ['a', 1],
      ['b', 2],
    ])
    expect(setNewest(map, 'a', 3, 2)).toBe(3)
    setNewest(map, 'c', 4, 2)
    expect([...map]).toEqual([
      ['a', 3],
      ['c', 4],
    ])
  })
})
