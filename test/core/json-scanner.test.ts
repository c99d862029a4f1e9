import { describe, expect, it } from 'vitest'
import { scanAnswer, scanValue } from '../../src/core/json-scanner.ts'
import { randomFrom } from '../fuzz.ts'

const scan = (text: string): string => scanValue(Buffer.from(text)) ?? 'clean'

/** Pseudo-random integers below a limit, reproducible by seed. */
function randomOf(seed: number): (below: number) => number {
  const random = randomFrom(seed)
  return (below) => Math.floor(random() * below)
}

const TEXTS = ['', 'a', 'plain words', 'é', '漢字', '😀', '"', '\\', '\n\t\r\n', '/', 'x'.repeat(200), '—“”…', '\u2028']

function anyValue(random: (below: number) => number, depth = 0): unknown {
  const kind = random(depth > 4 ? 5 : 8)
  if (kind === 0) return null
  if (kind === 1) return random(2) === 0
  if (kind === 2) return (random(2_000_000) - 1_000_000) / [1, 8, 1000, 1e-20, 1e30][random(5)]!
  if (kind === 3) return random(1_000_000)
  if (kind === 4) return Array.from({ length: random(4) }, () => TEXTS[random(TEXTS.length)]).join('')
  if (kind < 7) return Array.from({ length: random(5) }, () => anyValue(random, depth + 1))
  return Object.fromEntries(
    Array.from({ length: random(depth ? 6 : 30) }, (_, n) => [
      `k${n}${'y'.repeat(random(5))}`,
      anyValue(random, depth + 1),
    ]),
  )
}

const parses = (bytes: Buffer): boolean => {
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
    return true
  } catch {
    return false
  }
}

describe('the scanner and JSON.parse', () => {
  it('agree on 500 unchanged values', () => {
    const random = randomOf(7)
    for (let n = 0; n < 500; n++) {
      const value = anyValue(random)
      for (const text of [JSON.stringify(value), ` ${JSON.stringify(value)}\t`]) expect(scan(text), text).toBe('clean')
    }
  })

  it('agree on 3,000 values with one byte changed, removed or inserted: no clean value fails to parse', () => {
    const random = randomOf(11)
    const marks = Buffer.from('{}[]",:\\u0e+-.tfn 19\u0001\x7f')
    let clean = 0
    for (let n = 0; n < 3_000; n++) {
      const bytes = Buffer.from(JSON.stringify(anyValue(random)))
      const at = random(bytes.length)
      const byte = random(4) === 0 ? random(256) : (marks[random(marks.length)] as number)
      const broken = Buffer.concat([
        bytes.subarray(0, at),
        random(3) === 0 ? Buffer.alloc(0) : Buffer.from([byte]),
        bytes.subarray(at + random(2)),
      ])
      const verdict = scanValue(broken)
      if (verdict === undefined) clean++
      if (verdict === undefined && !parses(broken)) expect(broken.toString('latin1'), 'called clean').toBe('')
      if (verdict === 'invalid' && parses(broken)) expect(broken.toString('latin1'), 'called invalid').toBe('')
    }
    expect(clean).toBeGreaterThan(100)
  })

  it.each([
    '',
    ' ',
    '{',
    '}',
    '[1,]',
    '[,1]',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{a:1}',
    "'a'",
    '"a',
    '"\\x"',
    '"\\u12g4"',
    '"\\u12"',
    '01',
    '-',
    '+1',
    '1.',
    '.5',
    '1e',
    '1e+',
    '0x1',
    'tru',
    'truee',
    'nul',
    'NaN',
    'Infinity',
    '1 2',
    '"\u0001"',
    '"a\nb"',
    '[1 2]',
  ])('both reject %j', (text) => {
    expect(parses(Buffer.from(text))).toBe(false)
    expect(scan(text)).toBe('invalid')
  })

  it('see the same in long text, at any position within a word of four bytes', () => {
    for (let at = 1_500; at < 1_508; at++)
      for (const [bytes, verdict] of [
        [[0x1f], 'invalid'],
        [[0x22], 'invalid'],
        [[0x5c], 'invalid'],
        [[0x7f], 'hidden'],
        [[0xc2, 0x85], 'hidden'],
        [[0xc3, 0xa9], undefined],
        [[0x20], undefined],
        [[0x7e], undefined],
      ] as const) {
        const long = Buffer.from(`"${'a'.repeat(2_000)}"`)
        long.set(bytes, at)
        expect(scanValue(long), `${bytes} at ${at}`).toBe(verdict)
      }
  })

  it('both reject bytes that are not UTF-8', () => {
    for (const bytes of [
      [0x22, 0xff, 0x22],
      [0x22, 0xc0, 0xaf, 0x22],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
    ])
      expect(scanValue(Buffer.from(bytes))).toBe('invalid')
  })
})

describe('a value is not passed on unchanged', () => {
  const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`

  it('when it is more than 64 deep', () => {
    expect([scan(nested(64)), scan(nested(65)), scan(nested(1_000_000))]).toEqual(['clean', 'deep', 'deep'])
  })

  it('when one object has more than 200,000 keys, but not when many rows have the same keys', () => {
    const objectOf = (count: number): Buffer =>
      Buffer.from(`{${Array.from({ length: count }, (_, n) => `"a${n}":0`).join(',')}}`)
    expect(scanValue(objectOf(200_001))).toBe('many keys')
    const rows = Array.from({ length: 100_000 }, (_, n) => ({ a: n, b: [{ c: 'd' }] }))
    expect(scanValue(Buffer.from(JSON.stringify(rows)))).toBeUndefined()
  })

  it('when an object has a duplicate key, among any number of keys', () => {
    const many = Array.from({ length: 1_000 }, (_, n) => `"k${n}":{"k${n}":0}`).join(',')
    expect(scan('{"a":1,"a":2}')).toBe('duplicate key')
    expect(scan('{"a":{"a":1},"b":{"a":1}}')).toBe('clean')
    expect(scan('{"a":1,"\\u0061":2}')).toBe('hidden')
    expect(scan('{"<":1,"\\u003c":2}')).toBe('duplicate key')
    expect(scan(`{${many}}`)).toBe('clean')
    expect(scan(`{${many},"k500":1}`)).toBe('duplicate key')
  })

  it('when it has a __proto__ key', () => {
    expect(scan('[{"__proto__":{"x":1}}]')).toBe('forbidden key')
    expect(scan('["__proto__"]')).toBe('clean')
  })

  it.each(['password', 'API_KEY', 'accessToken', 'client-secret', 'Authorization'])('when a key is %s', (name) => {
    expect(scan(`{"a":[{"${name}":"x"}]}`)).toBe('credential')
    expect(scan(`["${name}"]`)).toBe('clean')
  })

  it.each([
    0x00, 0x1b, 0x08, 0x0c, 0x7f, 0x85, 0x9b, 0x61c, 0x200e, 0x202e, 0x2066, 0x2069, 0xfff0, 0xfff8, 0x1bca0, 0x13430,
    0xe0001, 0xe0041, 0xe007f, 0xe0400, 0xe0fff,
  ])('when it contains the character %i, literally or escaped', (code) => {
    const text = String.fromCodePoint(code)
    const escaped = [...text.split('')].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
    expect(scan(`"a${escaped}b"`)).toBe('hidden')
    expect(scan(`"a${escaped.toUpperCase().replaceAll('\\U', '\\u')}b"`)).toBe('hidden')
    if (code >= 0x20) expect(scan(`["${'long '.repeat(500)}${text}"]`)).toBe('hidden')
  })

  it('when a surrogate pair is incomplete', () => {
    for (const half of ['\\ud83d', '\\ude00', '\\ude00\\ud83d', '\\ud83dx']) expect(scan(`"${half}"`)).toBe('hidden')
    expect(scan('"\\ud83d\\ude00"')).toBe('clean')
  })

  it('but is if it contains line breaks in text, letters of any script and long numbers', () => {
    expect(scan('["天気ที่ ქართული μέρα £½","a\\r\\n\\tb",123456789012345678901234567890,1e999]')).toBe('clean')
  })

  it.each(['"\u200d"', '"\ufeff"', '"\\u200b"', '"\ufe0f"', '"\u3164"', '"a\\rb"'])(
    'when a text may hide something: %j',
    (text) => expect(scan(text)).toBe('hidden'),
  )

  it.each([...'AZaz09 -_./:@[]()#?'])('when %j is written as an escape, which only hides text', (char) => {
    const code = char.charCodeAt(0).toString(16)
    for (const text of [
      `"a\\u00${code}b"`,
      `{"a\\u00${code}":1}`,
      `["${'long '.repeat(500)}\\u00${code.toUpperCase()}"]`,
    ])
      expect(scan(text)).toBe('hidden')
  })

  it('but is if it contains characters that JSON writers escape for web pages', () =>
    expect(scan('["\\u003ca\\u003E \\u0026 \\u0022\\u0027 \\u002B \\u003d \\u0060"]')).toBe('clean'))

  it.each(['pegboard/error', 'Pegboard/notice'])("when a key pretends to be Pegboard's: %s", (key) => {
    expect(scan(`{"_meta":{"${key}":1}}`)).toBe('forbidden key')
  })
})

describe('an answer', () => {
  const answer = (line: string) => scanAnswer(Buffer.from(line))

  it('has its id, and the positions of the result and its members', () => {
    const line = '{"result": {"content": [1, 2], "isError":false} ,"jsonrpc":"2.0", "id":"p:7"}'
    const found = answer(line)
    if (typeof found === 'string') throw new Error(found)
    expect(found.id).toBe('p:7')
    expect(line.slice(found.result.start, found.result.end)).toBe('{"content": [1, 2], "isError":false}')
    expect([...found.members].map(([name, { start, end }]) => [name, line.slice(start, end)])).toEqual([
      ['content', '[1, 2]'],
      ['isError', 'false'],
    ])
  })

  it('may end with a carriage return, and contain none before', () => {
    expect(answer('{"jsonrpc":"2.0","id":"p:1","result":{}}\r')).toMatchObject({ id: 'p:1' })
    expect(answer('{"jsonrpc":"2.0","id":"p:1","result":{"a":[1,\r2]}}')).toBe('return')
  })

  it.each([
    '{"jsonrpc":"2.0","method":"notifications/message","params":{}}',
    '{"jsonrpc":"2.0","id":"p:1","error":{"code":1,"message":"x"}}',
    '{"jsonrpc":"2.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0","result":{}}',
    '{"jsonrpc":"2.0","id":"p:1","result":[]}',
    '[]',
    'banner',
  ])('is not recognized: %s', (line) => {
    expect(answer(line)).toBe('not a result')
  })

  it('that is cut short, or has more after it, is not valid', () => {
    expect(answer('{"jsonrpc":"2.0","id":"p:1","result":{')).toBe('invalid')
    expect(answer('{"jsonrpc":"2.0","id":"p:1","result":{}} {}')).toBe('invalid')
    expect(answer('{"jsonrpc":"2.0","id":"p:1","result":{},"id":"p:2"}')).toBe('duplicate key')
  })
})
