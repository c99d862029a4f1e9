import { describe, expect, it } from 'vitest'
import { redact, redactUrl } from '../../src/core/redact.ts'

const body =
  'MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\n'
const key = `-----BEGIN RSA PRIVATE KEY-----\n${body}-----END RSA PRIVATE KEY-----`
const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U'

describe('redact', () => {
  it('removes private keys, JSON web tokens, bearer tokens, credential values, and those in URLs [MOR-21]', () => {
    expect(redact(`before\n${key}\nafter`)).toBe('before\n[redacted]\nafter')
    expect(redact(`session ${jwt} ok`)).toBe('session [redacted] ok')
    expect(redact('-H "X: Bearer abcdefgh12345678"')).toBe('-H "X: Bearer [redacted]"')
    expect(redact('DB_PASSWORD=hunter2 PORT=5432')).toBe('DB_PASSWORD=[redacted] PORT=5432')
    expect(redact('GET https://ann:hunter2@host.example/a?page=2&access_token=abc123&x=1')).toBe(
      'GET https://ann:[redacted]@host.example/a?page=2&access_token=[redacted]&x=1',
    )
  })

  it.each([
    ['Authorization: Basic YW5uOmh1bnRlcjI=', 'Authorization: Basic [redacted]'],
    ['Authorization: Bearer abcdef0123456789', 'Authorization: Bearer [redacted]'],
    ['proxy-authorization: k-123', 'proxy-authorization: [redacted]'],
    ['< Set-Cookie: sid=1234; Path=/', '< Set-Cookie: [redacted]'],
    ['{"apiKey": "k-123456", "name": "x"}', '{"apiKey": "[redacted]", "name": "x"}'],
    ["client_secret = 's3cr3t'", "client_secret = '[redacted]'"],
    ['password: hunter2', 'password: [redacted]'],
    ['aws_secret_access_key = wJalrXUtnFEMI/K7MDENG', 'aws_secret_access_key = [redacted]'],
    ['export GITHUB_TOKEN=abcd', 'export GITHUB_TOKEN=[redacted]'],
    ['ghp_0123456789abcdefghijABCDEFGHIJ012345', '[redacted]'],
    ['key AKIAIOSFODNN7EXAMPLE', 'key [redacted]'],
    [
      'https://b.example/o?X-Amz-Signature=ab12&X-Amz-Date=1',
      'https://b.example/o?X-Amz-Signature=[redacted]&X-Amz-Date=1',
    ],
    [`-----BEGIN PRIVATE KEY-----\n${body}`, '[redacted]'],
  ])('%s', (text, expected) => {
    expect(redact(text)).toBe(expected)
  })

  it.each([
    'const token = await getToken()',
    'token: string',
    '  readonly password: string | undefined',
    'if (token === undefined) return',
    'const { token } = options.auth.token',
    'auth = require("x")',
    'author=ann page_token_count=3',
    'the key is under the mat: basic functionality of bearer authentication',
    'https://docs.example/a?page=2#token',
    'secretary: 12 people',
    'PASSWORD=$1',
    '',
  ])('leaves %s as it is', (text) => {
    expect(redact(text)).toBe(text)
  })

  it('takes linear time', () => {
    // A quadratic pattern would exceed the time limit of the test.
    const size = 512 * 1024
    for (const piece of [
      'eyJ',
      'eyJ-',
      'eyJ.',
      'a=',
      'token=',
      'token:',
      '"token":"',
      '://a:',
      '?a=',
      '-----BEGIN PRIVATE KEY-----',
      '-----BEGIN ',
      'bearer ',
      'A',
      'a.',
      'sk-',
      ' ',
      '\n',
      'authorization:',
      'token="\\',
    ]) {
      expect(redact(`token=1 ${piece.repeat(size / piece.length)}`), piece).toMatch(/^token=/)
    }
  })
})

describe('redactUrl', () => {
  it('removes values of parameters by name, and treats anything but a whole URL as text', () => {
    expect(redactUrl('https://a.example/b?x=1&api_key=short&y=2#c')).toBe(
      'https://a.example/b?x=1&api_key=%5Bredacted%5D&y=2#c',
    )
    expect(redactUrl('/relative?token=abcdefgh12')).toBe('/relative?token=[redacted]')
  })
})
