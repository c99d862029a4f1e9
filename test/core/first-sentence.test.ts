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

it('does not end a sentence after an abbreviation or a number', () => {
  const shown = 'Runs step 2. of the plan, e.g. a build, and reports the result.'
  expect(firstSentence(`${shown} It takes a minute.`, 200)).toBe(shown)
})

it('skips a warning', () => {
  expect(firstSentence('IMPORTANT: read this first. Sends a message to a channel.', 80)).toBe(
    'Sends a message to a channel.',
  )
})
