import { describe, expect, it } from 'vitest'
import { redact, redactUrl } from '../../src/core/redact.ts'

describe('what looks like a credential', () => {
  it.each([
    [
      'a key that goes on to the end',
      '-----BEGIN PRIVATE KEY-----\nMIIEow',
      '-----BEGIN PRIVATE KEY-----\n[redacted]\n-----END PRIVATE KEY-----',
    ],
    ['a field of JSON', '{"client_secret": "abcdefgh12345678"}', '{"client_secret": "[redacted]"}'],
    ['a header', 'x-api-key: abcdefgh12345678', 'x-api-key: [redacted]'],
    ['two of them', 'token=abcdefgh1 password=abcdefgh2', 'token=[redacted] password=[redacted]'],
  ])('is taken out: %s', (_what, before, after) => expect(redact(before)).toBe(after))

  it('is taken out of addresses by the names of their parameters', () => {
    expect(redactUrl('https://a.example/b?x=1&api_key=short&y=2#c')).toBe(
      'https://a.example/b?x=1&api_key=%5Bredacted%5D&y=2#c',
    )
    expect(redactUrl('/relative?token=abcdefgh12')).toBe('/relative?token=[redacted]')
  })

  it('takes time in proportion to what it looks at, whatever that is', () => {
    for (const part of ['eyJ-', 'bearer ', 'token=', '-----BEGIN PRIVATE KEY-----', 'a'.repeat(64), 'api_key: "'])
      expect(typeof redact(part.repeat(Math.ceil(1_000_000 / part.length)))).toBe('string')
  })

  it('leaves harmless text as it is', () => {
    const text = 'See https://example.com/a?page=2&sort=name. Version 1.22.333; key: value; tokens: 1234567890 of 2.'
    expect(redact(text)).toBe(text)
  })
})
