import { describe, expect, it } from 'vitest'
import { runWithTimeout } from '../../src/core/run-with-timeout.ts'

describe('work with a time limit', () => {
  it('returns what the work returns, and throws what it throws', () => {
    expect(runWithTimeout(1_000, () => 42)).toEqual({ value: 42 })
    expect(() =>
      runWithTimeout(1_000, () => {
        throw new TypeError('no')
      }),
    ).toThrow(new TypeError('no'))
  })

  it('stops an endless expression, and endless recursion', () => {
    expect(runWithTimeout(50, () => /^(a+)+$/.test(`${'a'.repeat(50)}!`))).toBeUndefined()
    const forever = (n: number): number => forever(n + 1) + 1
    expect(runWithTimeout(1_000, () => forever(0))).toBeUndefined()
    expect(runWithTimeout(5_000, () => 'afterwards')).toEqual({ value: 'afterwards' })
  })
})
