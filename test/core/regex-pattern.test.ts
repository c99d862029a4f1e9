import { expect, it } from 'vitest'
import { isRegexPattern } from '../../src/core/regex-pattern.ts'

it.each([
  '^[a-z]+$',
  '\\p{L}',
  '[\\p{Lu}\\p{Script=Greek}-]',
  '\\\\p{no}'.replace('{no}', ''),
  '^\\P{L}{1,3}$',
  '(?<a>x)\\k<a>',
])('%j is a pattern', (pattern) => {
  expect(isRegexPattern(pattern)).toBe(true)
})

it.each(['(', '\\p{Nothing}', '\\p{', '\\p{L', '[\\p{L}-z]', '[a', 7, undefined])('%j is not a pattern', (pattern) => {
  expect(isRegexPattern(pattern)).toBe(false)
})

it('rejects a pattern of thousands of Unicode properties, which would take seconds to compile', () => {
  expect(isRegexPattern(`[${'\\p{L}'.repeat(600)}]`)).toBe(false)
  expect(isRegexPattern('a'.repeat(5_000))).toBe(false)
})

it('compiles thousands of different patterns with Unicode properties in less than a second', () => {
  const startedAt = performance.now()
  for (let n = 0; n < 4_000; n++) expect(isRegexPattern(`[${'\\p{L}'.repeat(64)}]${n}`)).toBe(true)
  expect(performance.now() - startedAt).toBeLessThan(3_000)
})
