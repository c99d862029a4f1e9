import { describe, expect, it } from 'vitest'
import { checkArguments } from '../../src/core/guard.ts'

const codeOf = (value: unknown): string => {
  try {
    checkArguments(value)
    return 'accepted'
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('arguments from outside', () => {
  it('with a prototype key are refused and pollute nothing [SCH-04]', () => {
    expect(codeOf(JSON.parse('{"__proto__":{"isAdmin":true}}'))).toBe('E_VALIDATION')
    expect(codeOf({ deep: [{ constructor: 1 }] })).toBe('E_VALIDATION')
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined()
  })

  it('with an integer that would be rounded are refused, exact strings are not [SCH-06]', () => {
    expect(codeOf(JSON.parse('{"n":1234567890123456789}'))).toBe('E_INT_PRECISION')
    expect(codeOf({ n: '1234567890123456789', f: 1.5e300 + 0.5 })).toBe('E_INT_PRECISION')
    expect(codeOf({ n: '1234567890123456789', f: 0.5 })).toBe('accepted')
  })

  // The best of three, in processor time: a busy machine is not what is measured.
  const within = (ms: number, value: unknown): string => {
    const took = [1, 2, 3].map(() => {
      const before = process.cpuUsage()
      codeOf(value)
      const { user, system } = process.cpuUsage(before)
      return (user + system) / 1_000
    })
    expect(Math.min(...took)).toBeLessThan(ms)
    return codeOf(value)
  }

  it('nested a hundred thousand deep are refused at once [SCH-08]', () => {
    expect(within(50, JSON.parse(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`))).toBe('E_VALIDATION')
  })

  it('of a million items, as many keys as a message may hold, or five megabytes of text are refused at once [SCH-09]', () => {
    expect(within(200, { list: Array.from({ length: 1_000_000 }, (_, n) => n) })).toBe('E_VALIDATION')
    const keys = Object.fromEntries(Array.from({ length: 250_000 }, (_, n) => [`k${n}`, n]))
    expect(within(200, keys)).toBe('E_VALIDATION')
    expect(within(200, { name: 'x'.repeat(5_000_000) })).toBe('E_VALIDATION')
  })

  it('nested without end, or with a million keys, are refused quickly', () => {
    const deep = JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)
    expect(codeOf(deep)).toBe('E_VALIDATION')
    expect(codeOf(Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [`k${n}`, n])))).toBe('E_VALIDATION')
    expect(codeOf({ text: 'x'.repeat(5 * 1024 * 1024) })).toBe('E_VALIDATION')
  })

  it('of ordinary size pass', () => {
    expect(codeOf({ path: 'a.txt', list: [1, 2, { x: null }] })).toBe('accepted')
    expect(codeOf({ text: 'x'.repeat(1024 * 1024) })).toBe('accepted')
  })
})
