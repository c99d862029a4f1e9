import { expect, it } from 'vitest'
import { digestOf, toCanonicalJson } from '../../src/core/canonical.ts'

it.each([
  [{ b: 1, a: [{ d: null, c: 'x' }] }, '{"a":[{"c":"x","d":null}],"b":1}'],
  [{ a: undefined, b: [undefined] }, '{"b":[null]}'],
  [
    { at: new Date(0), from: new URL('https://example.com') },
    '{"at":"1970-01-01T00:00:00.000Z","from":"https://example.com/"}',
  ],
  [{ toJSON: 'a text' }, '{"toJSON":"a text"}'],
])('canonical JSON is JSON with sorted keys: %j', (value, text) => expect(toCanonicalJson(value)).toBe(text))

it('equal values have equal digests, whatever the order of their keys', () => {
  expect(digestOf({ a: 1, b: { c: 2, d: 3 } })).toBe(digestOf({ b: { d: 3, c: 2 }, a: 1, e: undefined }))
  expect(digestOf(new Date(0))).not.toBe(digestOf(new Date(1)))
})
