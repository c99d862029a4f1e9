import { describe, expect, it } from 'vitest'
import { firstSentence } from '../../src/core/first-sentence.ts'

describe('the first sentence of a description', () => {
  it.each([
    ['Reads a file. Not for folders.', 'Reads a file.'],
    ['Runs a tool, e.g. name "a.b". Then more.', 'Runs a tool, e.g. name "a.b".'],
    ['Runs step 2. of the plan. Then more.', 'Runs step 2. of the plan.'],
    ['Files, i.e. not folders', 'Files, i.e. not folders'],
    ['Liest a.b! Und mehr.', 'Liest a.b!'],
    ['読む。次。', '読む。'],
    ['Notion | Retrieve a page\nError Responses:\n400: Bad request', 'Retrieve a page'],
    ['Runs a cell by its\n  index\n\n    Args:\n  index: Which one', 'Runs a cell by its index'],
    ['IMPORTANT: Log in first. Lists all orders.', 'Lists all orders.'],
    ['\n 🎯 Purpose:\n   1. Reads contacts.\n   2. More.', 'Reads contacts.'],
    ['<use_case> **Migrates** a schema. </use_case>', 'Migrates a schema.'],
    ['Pay - Api: This is the public Pay REST API. Cancel an order', 'Cancel an order'],
    ['Returns the sum of two numbers', 'Returns the sum of two numbers'],
    ['Wait.', 'Wait.'],
    ['', ''],
  ])('of %j is %j', (text, sentence) => expect(firstSentence(text, 80)).toBe(sentence))

  it('is cut at a word if it is too long', () => {
    expect(firstSentence('one two three four five', 16)).toBe('one two three…')
  })

  it('is cut where a clause ends near the limit, otherwise after a word', () => {
    const shown = 'Gets unread threads in a workspace for the authenticated user.'
    expect(firstSentence(shown, 80)).toBe(shown)
    expect(firstSentence(shown, 50)).toBe('Gets unread threads in a workspace…')
    expect(firstSentence('Writes files (text, images, sheets) below a folder.', 26)).toBe('Writes files (text…')
    expect(firstSentence('Permanently deletes a specified Notion page and its contents.', 40)).toBe(
      'Permanently deletes a specified Notion…',
    )
    expect(firstSentence('x'.repeat(60), 20)).toBe(`${'x'.repeat(19)}…`)
  })
})
