import { expect, it } from 'vitest'
import { firstSentence } from '../../src/core/first-sentence.ts'

it('cuts a long sentence where a clause ends near the limit, otherwise after a word', () => {
  const shown = 'Gets unread threads in a workspace for the authenticated user.'
  expect(firstSentence(shown, 80)).toBe(shown)
  expect(firstSentence(shown, 50)).toBe('Gets unread threads in a workspace…')
  expect(firstSentence('Writes files (text, images, sheets) below a folder.', 26)).toBe('Writes files (text…')
  expect(firstSentence('Permanently deletes a specified Notion page and its contents.', 40)).toBe(
    'Permanently deletes a specified Notion…',
  )
  expect(firstSentence('x'.repeat(60), 20)).toBe(`${'x'.repeat(19)}…`)
})
