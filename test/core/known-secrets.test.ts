import { describe, expect, it } from 'vitest'
import { knownSecrets } from '../../src/core/known-secrets.ts'

describe('known secrets', () => {
  it('are removed from texts and values, longest first, and the rest stays', () => {
    const secrets = knownSecrets(['canary-1234', 'canary-1234-long', 'short', 'with"quote-12'])
    expect(secrets?.hide('a canary-1234-long b canary-1234 short')).toBe('a [redacted] b [redacted] short')
    expect(secrets?.hide('{"a":"with\\"quote-12"}')).toBe('{"a":"[redacted]"}')
    const value = { a: ['x canary-1234'], b: { c: 1 } }
    expect(secrets?.hideIn(value)).toEqual({ a: ['x [redacted]'], b: { c: 1 } })
    expect(secrets?.hideIn(value).b).toBe(value.b)
    const clean = { a: ['x'] }
    expect(secrets?.hideIn(clean)).toBe(clean)
    expect([secrets?.isIn(Buffer.from('xx canary-1234')), secrets?.isIn(Buffer.from('xx'))]).toEqual([true, false])
  })

  it.each([
    ['in an address', (secret: string) => encodeURIComponent(secret)],
    ['in base64', (secret: string) => Buffer.from(secret).toString('base64')],
    ['in base64 behind a name', (secret: string) => Buffer.from(`user:${secret}`).toString('base64')],
    ['in base64 between others', (secret: string) => Buffer.from(`ab:${secret} and more`).toString('base64url')],
  ])('are not revealed in %s either', (_where, written) => {
    const secret = 'c4nary?/+ü/1234'
    const told = knownSecrets([secret])?.hide(`a ${written(secret)} b`) ?? ''
    expect(told).toContain('[redacted]')
    expect(decodeURIComponent(told)).not.toContain('c4nary')
    for (const word of told.split(/\s|\[redacted\]/)) {
      // The ends share a letter with the surrounding text.
      expect(Buffer.from(word, 'base64').toString()).not.toMatch(/4nary|1234/)
    }
  })

  it.each([
    ['PHP', '"c4nary?\\/+\u00fc\\/1234"'],
    ['Python', '"c4nary?/+\\u00fc/1234"'],
    ['Ruby on Rails', '"c4nary?\\/+\\u00fc\\/1234"'],
    ['Java', '"c4nary?\\/+\\u00FC\\/1234"'],
  ])('are found in JSON bytes as %s writes them', (_who, json) => {
    const secrets = knownSecrets(['c4nary?/+ü/1234'])
    expect(secrets?.isIn(Buffer.from(`{"a":${json}}`))).toBe(true)
    expect(secrets?.hideIn(JSON.parse(`{"a":${json}}`))).toEqual({ a: '[redacted]' })
  })

  it('are undefined if there is nothing to search for', () => {
    expect(knownSecrets([])).toBeUndefined()
    expect(knownSecrets(['', '1234567'])).toBeUndefined()
  })
})
