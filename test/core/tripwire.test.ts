import { describe, expect, it } from 'vitest'
import { looksSecret } from '../../src/core/secret-names.ts'
import { guardSecrets, guardText, mayNameCredential, type TripwireLevel } from '../../src/core/tripwire.ts'

const throws: TripwireLevel = { level: 'throw', opaque: [] }
const redacts: TripwireLevel = { level: 'redact', opaque: [] }
const blocked = (value: unknown, wire: TripwireLevel = throws): string => {
  try {
    guardSecrets(value, wire)
  } catch (error) {
    return (error as Error).message
  }
  return 'passed'
}

describe('a field name', () => {
  it.each([
    ...['password', 'passwd', 'PASSWORD', 'db_password', 'dbpassword', 'secret', 'clientSecret', 'client-secret'],
    ...[
      'private_key',
      'privateKey',
      'api_key',
      'apiKey',
      'API-KEY',
      'APIKey',
      'apikey',
      'x-api-key',
      'aws_secret_access_key',
    ],
    ...['token', 'access_token', 'accessToken', 'ACCESSTOKEN', 'refresh_tokens', 'passphrase', 'auth', 'http_auth'],
    ...['Authorization', 'Proxy-Authorization', 'set-cookie', 'cookie', 'credentials', 'ｐａｓｓｗｏｒｄ'],
  ])('%s looks like a credential', (name) => expect(looksSecret(name)).toBe(true))

  it.each([
    ...['author', 'authority', 'authored_by', 'token_count', 'tokens', 'max_tokens', 'nextPageToken', 'tokenize'],
    ...[
      'key',
      'keys',
      'primary_key',
      'keyboard',
      'passage',
      'passed',
      'compass',
      'secretary',
      'cookies_policy',
      'password_policy',
      'password_length',
      'auth_method',
      'monkey',
    ],
    ...['', '0', 'constructor', '__proto__'],
  ])('%s does not', (name) => expect(looksSecret(name)).toBe(false))
})

describe('the tripwire', () => {
  it('rejects a field that looks like a credential, and names its path but not its value', () => {
    expect(blocked({ a: [{ api_key: 'canary' }] })).toBe('forbidden field "a.0.api_key"')
    expect(blocked({ api_key: 'canary' })).toBe('forbidden field "<root>.api_key"')
    expect(blocked([[{ token: 1 }]])).toBe('forbidden field "0.0.token"')
    expect(blocked({ author: 'x', authority: 'y', token_count: 3, list: [null, 1, 'password'] })).toBe('passed')
  })

  it('ends for circular, deep and wide values', () => {
    const cyclic: Record<string, unknown> = { name: 'x' }
    cyclic['self'] = { cyclic, list: [cyclic] }
    expect(blocked(cyclic)).toBe('passed')
    cyclic['last'] = { password: 'x' }
    expect(blocked(cyclic)).toBe('forbidden field "last.password"')
    expect(Object.keys(guardSecrets(cyclic, redacts)['last'] as object)).toEqual(['password'])
    let deep: unknown = { secret: 1 }
    for (let n = 0; n < 50_000; n++) deep = { d: deep }
    expect(blocked(deep)).toMatch(/^forbidden field "d\.d\..*\.secret"$/)
    // A lattice has 2^40 paths and 80 parts.
    let lattice: unknown = { end: 1 }
    for (let n = 0; n < 40; n++) lattice = { a: lattice, b: lattice }
    expect(blocked(lattice)).toBe('passed')
    expect(blocked(Array.from({ length: 1_000_001 }, () => 1))).toContain('more than 1000000 parts')
  })

  it('follows toJSON, and JSON in strings', () => {
    expect(blocked({ x: { toJSON: () => ({ password: 1 }) }, at: new Date(0) })).toBe('forbidden field "x.password"')
    expect(blocked({ text: ' {"a": {"api_key": "x"}}' })).toBe('forbidden field "text.a.api_key"')
    expect(blocked('[{"token": "x"}]')).toBe('forbidden field "0.token"')
    expect(blocked({ text: 'the password is {secret}' })).toBe('passed')
    expect(guardText('{"a":1,"token":"x"}', redacts)).toBe('{"a":1,"token":"[redacted]"}')
  })

  it('redacts only the value, in a copy', () => {
    const given = {
      user: 'ann',
      session: { token: { deep: 'canary' }, keep: [1, { apiKey: 'canary' }] },
      at: new Date(0),
    }
    expect(guardSecrets(given, redacts)).toEqual({
      user: 'ann',
      session: { token: '[redacted]', keep: [1, { apiKey: '[redacted]' }] },
      at: new Date(0),
    })
    expect(given.session.keep[1]).toEqual({ apiKey: 'canary' })
    const clean = { a: [{ b: 'x' }] }
    expect(guardSecrets(clean, redacts)).toBe(clean)
  })

  it('skips fields declared as opaque', () => {
    const wire: TripwireLevel = { level: 'throw', opaque: ['body', 'pages.*.row'] }
    expect(blocked({ status: 200, body: { token: 'x', deep: [{ password: 1 }] } }, wire)).toBe('passed')
    expect(blocked({ pages: [{ row: { secret: 1 } }] }, wire)).toBe('passed')
    expect(blocked({ pages: [{ secret: 1 }], body: {} }, wire)).toBe('forbidden field "pages.0.secret"')
    expect(guardSecrets({ token: 'x', body: { token: 'y' } }, { ...wire, level: 'redact' })).toEqual({
      token: '[redacted]',
      body: { token: 'y' },
    })
  })
})

describe("a credential's name in disguised JSON", () => {
  it.each([
    ['escaped', '{"p\\u0061ssword":"hunter2"}'],
    ['escaped, all of it', '{"\\u0070\\u0061\\u0073\\u0073\\u0077\\u0064":"hunter2"}'],
    ['full-width', '{"ｐａｓｓｗｏｒｄ":"hunter2"}'],
    ['full-width and escaped', '{"\\uff50\\uff41\\uff53\\uff53\\uff57\\uff44":"hunter2"}'],
    ['mathematical', '{"𝐩𝐚𝐬𝐬𝐰𝐝":"hunter2"}'],
  ])('is found: %s', (_how, json) => {
    expect(blocked({ text: json })).toMatch(/^forbidden field "text\./)
    expect(JSON.stringify(guardSecrets([{ type: 'text', text: json }], redacts))).not.toContain('hunter2')
    expect(guardText(json, redacts)).not.toContain('hunter2')
    // A server result as raw bytes.
    expect(mayNameCredential(Buffer.from(json).toString('latin1'))).toBe(true)
  })

  it('is not searched in text of other languages', () => {
    for (const text of ['{"naïve":"é"}', '{"名前":"値、です（ね）！"}', '{"a":"\\u00e9\\u4e2d"}', '{"имя":"кот 🐱"}'])
      expect([mayNameCredential(text), mayNameCredential(Buffer.from(text).toString('latin1'))]).toEqual([false, false])
  })
})
