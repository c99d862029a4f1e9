import { describe, expect, it } from 'vitest'
import { within } from '../../src/core/within.ts'

describe('work with a limit of time', () => {
  it('gives what the work gives, and throws what it throws', () => {
    expect(within(1_000, () => 42)).toEqual({ value: 42 })
    expect(() =>
      within(1_000, () => {
        throw new TypeError('no')
      }),
    ).toThrow(new TypeError('no'))
  })

  it('stops an expression that would never end, and a recursion without an end', () => {
    const before = performance.now()
    expect(within(50, () => /^(a+)+$/.test(`${'a'.repeat(50)}!`))).toBeUndefined()
    expect(performance.now() - before).toBeLessThan(2_000)
    const forever = (n: number): number => forever(n + 1) + 1
    expect(within(1_000, () => forever(0))).toBeUndefined()
    expect(within(50, () => 'afterwards')).toEqual({ value: 'afterwards' })
  })
})
