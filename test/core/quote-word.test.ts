import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { quoteWord } from '../../src/core/quote-word.ts'

it.each([
  'github',
  'C:\\Users\\ann\\a.js',
  'C:\\Program Files (x86)\\a b',
  '$(id)',
  '\\$(id)',
  '\\\\$(id)',
  '`id`',
  '"; id; "',
  "it's '; id; '",
  'a!b',
  '~/x*?[a]{b,c}',
  'ends in \\',
  'two\\\\ backslashes',
  'a\nb',
  ' ',
  '',
])('%j stays one word in a shell, and nothing in it is run', (word) => {
  expect(execFileSync('sh', ['-c', `printf %s ${quoteWord(word)}`], { encoding: 'utf8' })).toBe(word)
})
