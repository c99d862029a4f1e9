import { expect, it } from 'vitest'
import { formatCount } from '../../src/core/format-count.ts'

it.each([
  [0, '0 tools'],
  [1, '1 tool'],
  [999, '999 tools'],
  [2_000, '2,000 tools'],
  [1_234_567, '1,234,567 tools'],
  [0.12345, '0.12345 tools'],
  [1_234.5, '1,234.5 tools'],
])('%d is written as "%s"', (count, text) => expect(formatCount(count, 'tool')).toBe(text))

it('takes an irregular plural', () => expect(formatCount(2, 'entry', 'entries')).toBe('2 entries'))
