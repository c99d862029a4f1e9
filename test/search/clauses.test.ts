import { expect, it } from 'vitest'
import { clausesOf } from '../../src/search/clauses.ts'

it('splits a prompt at ends of sentences and between steps', () => {
  expect(clausesOf('Read the sales file, then draw a chart of it. Send both to Anna; thanks! Finally')).toEqual([
    'Read the sales file',
    'draw a chart of it',
    'Send both to Anna',
  ])
  expect(clausesOf('Read version 1.2 of the file, the one of Monday')).toEqual([])
  expect(clausesOf('I have many files. Which of them are large?')).toEqual([])
  expect(clausesOf('find a tool for this. '.repeat(20))).toHaveLength(7)
})
