import { describe, expect, it } from 'vitest'
import { checkArguments } from '../../src/core/argument-limits.ts'
import { costMs } from '../measure-growth.ts'

const codeOf = (value: unknown): string => {
  try {
    checkArguments(value)
    return 'accepted'
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('arguments from outside', () => {
  it('with a prototype key are rejected and pollute nothing [SCH-04]', () => {
    expect(codeOf(JSON.parse('{"__proto__":{"isAdmin":true}}'))).toBe('E_VALIDATION')
    expect(codeOf({ deep: [{ constructor: 1 }] })).toBe('E_VALIDATION')
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined()
  })

  it('with an integer that would be rounded are rejected, exact strings are not [SCH-06]', () => {
    expect(codeOf(JSON.parse('{"n":1234567890123456789}'))).toBe('E_INT_PRECISION')
    expect(codeOf({ n: '1234567890123456789', f: 1.5e300 + 0.5 })).toBe('E_INT_PRECISION')
    expect(codeOf({ n: '1234567890123456789', f: 0.5 })).toBe('accepted')
  })

  // The best of three in processor time, because the machine may be busy.
  const within = async (ms: number, value: unknown): Promise<string> => {
    const took: number[] = []
    while (took.length < 3) took.push(await costMs(() => codeOf(value)))
    expect(Math.min(...took)).toBeLessThan(ms)
    return codeOf(value)
  }

  it('nested a hundred thousand levels deep are rejected at once [SCH-08]', async () => {
    expect(await within(50, JSON.parse(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`))).toBe('E_VALIDATION')
  })

  it('with a million items, the maximum number of keys, or five megabytes of text are rejected at once [SCH-09]', async () => {
    expect(await within(200, { list: Array.from({ length: 1_000_000 }, (_, n) => n) })).toBe('E_VALIDATION')
    const keys = Object.fromEntries(Array.from({ length: 250_000 }, (_, n) => [`k${n}`, n]))
    expect(await within(200, keys)).toBe('E_VALIDATION')
    expect(await within(200, { name: 'x'.repeat(5_000_000) })).toBe('E_VALIDATION')
  })

  it('with endless nesting or a million keys are rejected quickly', () => {
    const deep = JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)
    expect(codeOf(deep)).toBe('E_VALIDATION')
    expect(codeOf(Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [`k${n}`, n])))).toBe('E_VALIDATION')
    expect(codeOf({ text: 'x'.repeat(5 * 1024 * 1024) })).toBe('E_VALIDATION')
  })

  it('of ordinary size are accepted', () => {
    expect(codeOf({ path: 'a.txt', list: [1, 2, { x: null }] })).toBe('accepted')
    expect(codeOf({ text: 'x'.repeat(1024 * 1024) })).toBe('accepted')
  })
})
