import { describe, expect, it } from 'vitest'
import { firstSentence } from '../../src/view/listing.ts'

describe('the first sentence of a description', () => {
  it.each([
    ['Reads a file. Not for folders.', 'Reads a file.'],
    ['Runs a tool, e.g. name "a.b". Then more.', 'Runs a tool, e.g. name "a.b".'],
    ['Files, i.e. not folders', 'Files, i.e. not folders'],
    ['Liest a.b! Und mehr.', 'Liest a.b!'],
    ['読む。次。', '読む。'],
  ])('of %j is %j', (text, sentence) => expect(firstSentence(text, 80)).toBe(sentence))

  it('is cut on a word where it is too long', () => {
    expect(firstSentence('one two three four five', 16)).toBe('one two three…')
  })
})
