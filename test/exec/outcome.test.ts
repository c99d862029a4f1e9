import { expect, it } from 'vitest'
import { outcomeOf, shortenOutcome } from '../../src/exec/outcome.ts'

it('a long result is stored by its beginning and a hash, a short one and a failure unchanged', () => {
  const short = { success: true, data: { rows: ['x'.repeat(1_000)] } } as const
  const failure = { success: false, code: 'E_TIMEOUT', error: 'x'.repeat(100_000) } as const
  expect([shortenOutcome(short), shortenOutcome(failure)]).toEqual([short, failure])
  const long = (end: string) => shortenOutcome({ success: true, data: 'x'.repeat(1_000_000) + end })
  expect(long('a')).toMatchObject({
    success: true,
    data: expect.stringMatching(/^"x{999}… \(1000003 characters, SHA-256 [0-9a-f]{64}\)$/),
  })
  expect(long('a')).toEqual(long('a'))
  expect(long('a')).not.toEqual(long('b'))
})

it('a question is a failure that tells how the user can be asked', () => {
  const { outcome } = outcomeOf({ kind: 'input_required', result: {} })
  expect(outcome).toEqual({
    success: false,
    code: 'E_CANNOT_ASK',
    error:
      'E_CANNOT_ASK: The tool has a question for the user. Call the tool directly, so that the client can ask the user.',
  })
})
