import { expect, it } from 'vitest'
import { signatureOf } from '../../src/core/signature.ts'

it('shows required parameters first, types in short, defaults and choices', () => {
  expect(
    signatureOf({
      type: 'object',
      properties: {
        limit: { type: 'integer', default: 2000 },
        path: { type: 'string' },
        mode: { enum: ['a', 'b'] },
        tags: { type: 'array', items: { type: 'string' } },
        at: { type: ['string', 'null'] },
        where: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] },
      },
      required: ['path'],
    }),
  ).toBe('path: str, limit?: int = 2000, mode?: "a"|"b", tags?: str[], at?: str|null, where?: {x: num}')
})

it('survives schemas that are not what they should be', () => {
  expect(signatureOf({})).toBe('')
  expect(signatureOf({ properties: { a: true, b: { anyOf: [{ type: 'string' }, { $ref: '#/x' }] } } })).toBe(
    'a?: any, b?: str|any',
  )
})
