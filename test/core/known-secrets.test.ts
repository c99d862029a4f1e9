import { describe, expect, it } from 'vitest'
import { knownSecrets } from '../../src/core/known-secrets.ts'

describe('known secrets', () => {
  it('are taken out of texts and values, the longest first, and leave the rest as it is', () => {
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

  it('are nothing where there are none worth looking for', () => {
    expect(knownSecrets([])).toBeUndefined()
    expect(knownSecrets(['', '1234567'])).toBeUndefined()
  })
})
