import { describe, expect, it } from 'vitest'
import { createNumbered } from '../../src/core/numbered.ts'

describe('what has a number', () => {
  it('is found under it until it is deleted, and no number comes twice', () => {
    const numbered = createNumbered<string>()
    const [a, b] = [numbered.add('a'), numbered.add('b')]
    expect([a, b, numbered.get(a), numbered.get(b), numbered.size]).toEqual([1, 2, 'a', 'b', 2])
    expect([numbered.delete(a), numbered.delete(a), numbered.get(a)]).toEqual([true, false, undefined])
    expect([numbered.add('c'), numbered.get(Number.NaN), numbered.get(65)]).toEqual([3, undefined, undefined])
    expect(numbered.values()).toEqual(['b', 'c'])
  })

  it('keeps its number while thousands come and go, however many are there at once', () => {
    const numbered = createNumbered<number>()
    const first = numbered.add(-1)
    const kept = new Map<number, number>()
    for (let n = 0; n < 10_000; n++) {
      const number = numbered.add(n)
      expect(kept.has(number)).toBe(false)
      if (n % 7 === 0) kept.set(number, n)
      else expect(numbered.delete(number)).toBe(true)
    }
    expect(numbered.get(first)).toBe(-1)
    expect([...kept].every(([number, n]) => numbered.get(number) === n)).toBe(true)
    expect(numbered.size).toBe(kept.size + 1)
  })
})
