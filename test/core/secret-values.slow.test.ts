import { expect, it } from 'vitest'
import { redactSecrets, secretSpans } from '../../src/core/secret-values.ts'

/** Concatenated, so that secret scanners do not report it. */
const made = (begin: string, rest: string, length: number): string => begin + rest.repeat(length).slice(0, length)

it.each([
  ['a token', 'eyJ', 'a', 8_000_000],
  ['tokens', 'eyJ', 'aaaeyJ', 2_000_000],
  ['five parts', 'eyJaaaaaaaa', `.${'a'.repeat(4_000)}`, 2_000],
  ['a key of a provider', 'sk-', 'a', 8_000_000],
  ['a key of Grafana', 'glc_', `${'\\'.repeat(31)}/`, 500_000],
  ['a private key', '-----BEGIN PRIVATE KEY-----', 'a\\n', 5_000_000],
  ['headers of a private key', '-----BEGIN PRIVATE KEY-----', '\nComment: a', 2_000_000],
  ['a header of a private key', '-----BEGIN PRIVATE KEY-----\nComment: ', 'a', 10_000_000],
  ['an address', 'x:', '\\', 10_000_000],
])('searches megabytes of what looks like %s, and finds the secret after them', (_name, begin, repeated, times) => {
  const secret = made('npm_', 'aB3d', 36)
  const hostile = begin + repeated.repeat(times)
  expect(secretSpans(`${hostile} ${secret}`)).toContainEqual({
    name: 'npm-token',
    start: hostile.length + 1,
    end: hostile.length + 41,
  })
  expect(redactSecrets(`${hostile} ${secret}`).endsWith(' [redacted]')).toBe(true)
})
