import { describe, expect, it } from 'vitest'
import { compileGlob } from '../../src/policy/glob.ts'
import { costMs } from '../measure-growth.ts'

describe('file patterns', () => {
  it.each([
    ['*.ts', 'a.ts', true],
    ['*.ts', 'x/a.ts', false],
    ['**/*.ts', 'a.ts', true],
    ['**/*.ts', 'x/y/a.ts', true],
    ['src/**', 'src/a/b', true],
    ['src/**', 'src', true],
    ['src/**', 'srcs', false],
    ['a?c', 'abc', true],
    ['a?c', 'a/c', false],
    ['[a-c]x', 'bx', true],
    ['[!a-c]x', 'bx', false],
    ['*.{js,ts}', 'a.ts', true],
    ['{a,b{c,d}}/x', 'bd/x', true],
    ['{a}', '{a}', true],
    ['\\*', '*', true],
    ['\\*', 'a', false],
    ['.*', '.env', true],
    ['**', 'a/b', true],
    ['./a', 'a', true],
    ['[x', '[x', true],
    ['é*', 'été', true],
  ] as const)('%s and %s: %s', (pattern, path, fits) => {
    expect(compileGlob(pattern)(path)).toBe(fits)
  })

  it('take linear time for hostile patterns', async () => {
    const ms = await costMs(() => {
      expect(compileGlob(`${'*a'.repeat(200)}b`)('a'.repeat(2_000))).toBe(false)
      expect(compileGlob(`${'**/'.repeat(200)}b`)('a/'.repeat(500))).toBe(false)
      expect(() => compileGlob('{a,b}'.repeat(20))).toThrow(RangeError)
    })
    expect(ms).toBeLessThan(1_000)
  })

  it('ignore case on request', () => {
    expect(compileGlob('*.MD', true)('readme.md')).toBe(true)
    expect(compileGlob('*.MD')('readme.md')).toBe(false)
  })
})
