import { expect, it } from 'vitest'
import { describeChanges } from '../../src/exec/describe-changes.ts'

it('names the path and both values of each change', () => {
  expect(describeChanges({ a: [{ b: 1 }, 2], gone: true }, { a: [{ b: null }, 2], added: 'x' })).toBe(
    'a.0.b: 1 → null, gone: true → missing, added: missing → "x"',
  )
  expect(describeChanges('old', 'new')).toBe('"old" → "new"')
  expect(describeChanges({ rows: [1, 2] }, { rows: [1] })).toBe('rows: 2 items → 1 item')
})

it('shows a long text from its first difference, and five changes', () => {
  const [before, now] = ['old', 'new'].map((word) => `${'a'.repeat(1_000)}${word}${'z'.repeat(1_000)}`)
  expect(describeChanges(before, now)).toMatch(/^"a{20}oldz+… → "a{20}newz+…$/)
  const numbers = (first: number) => Array.from({ length: 9 }, (_, at) => first + at)
  expect(describeChanges(numbers(0), numbers(1))).toMatch(/^0: 0 → 1, .*4: 4 → 5, and 4 more$/)
})

it('compares deep parts as a whole', () => {
  const nest = (end: unknown) => JSON.parse(`${'['.repeat(1_000)}${end}${']'.repeat(1_000)}`)
  expect(describeChanges(nest(1), nest(2))).toBe('0.0.0.0.0.0: 1 item → 1 item')
})
