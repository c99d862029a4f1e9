import { describe, expect, it } from 'vitest'
import { scanAnswer, scanValue } from '../../src/core/scan.ts'

const scan = (text: string): string => scanValue(Buffer.from(text)) ?? 'clean'

/** A small generator of numbers from a seed, so that a failure can be seen again. */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
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
  it('agree on 500 values as they are written', () => {
    const random = randomOf(7)
    for (let n = 0; n < 500; n++) {
      const value = anyValue(random)
      for (const text of [JSON.stringify(value), ` ${JSON.stringify(value)}\t`]) expect(scan(text), text).toBe('clean')
    }
  })

  it('agree on 3,000 values with a byte changed, lost or put in: nothing is clean that cannot be parsed', () => {
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
  ])('both refuse %j', (text) => {
    expect(parses(Buffer.from(text))).toBe(false)
    expect(scan(text)).toBe('invalid')
  })

  it('see the same in long text, wherever in a word of four bytes something stands', () => {
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

  it('both refuse bytes that are not UTF-8', () => {
    for (const bytes of [
      [0x22, 0xff, 0x22],
      [0x22, 0xc0, 0xaf, 0x22],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
    ])
      expect(scanValue(Buffer.from(bytes))).toBe('invalid')
  })
})

describe('a value is not passed on as it is', () => {
  const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`

  it('when it is more than 64 deep', () => {
    expect([scan(nested(64)), scan(nested(65)), scan(nested(1_000_000))]).toEqual(['clean', 'deep', 'deep'])
  })

  it('when a key comes twice in one object, however many there are', () => {
    const many = Array.from({ length: 1_000 }, (_, n) => `"k${n}":{"k${n}":0}`).join(',')
    expect(scan('{"a":1,"a":2}')).toBe('duplicate key')
    expect(scan('{"a":{"a":1},"b":{"a":1}}')).toBe('clean')
    expect(scan('{"a":1,"\\u0061":2}')).toBe('hidden')
    expect(scan('{"-":1,"\\u002d":2}')).toBe('duplicate key')
    expect(scan(`{${many}}`)).toBe('clean')
    expect(scan(`{${many},"k500":1}`)).toBe('duplicate key')
  })

  it('when it would become the prototype of something', () => {
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
  ])('when it holds the character %i, written or escaped', (code) => {
    const text = String.fromCodePoint(code)
    const escaped = [...text.split('')].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
    expect(scan(`"a${escaped}b"`)).toBe('hidden')
    expect(scan(`"a${escaped.toUpperCase().replaceAll('\\U', '\\u')}b"`)).toBe('hidden')
    if (code >= 0x20) expect(scan(`["${'long '.repeat(500)}${text}"]`)).toBe('hidden')
  })

  it('when half of a pair is missing', () => {
    for (const half of ['\\ud83d', '\\ude00', '\\ude00\\ud83d', '\\ud83dx']) expect(scan(`"${half}"`)).toBe('hidden')
    expect(scan('"\\ud83d\\ude00"')).toBe('clean')
  })

  it('but line ends in text, letters of any script and long numbers are no reason', () => {
    expect(scan('["天気ที่ ქართული μέρα £½","a\\r\\n\\tb",123456789012345678901234567890,1e999]')).toBe('clean')
  })

  it.each(['"\u200d"', '"\ufeff"', '"\\u200b"', '"\ufe0f"', '"\u3164"', '"a\\rb"', '"\\u004eOTICE"'])(
    'when a text may hide something or disguises letters: %j',
    (text) => expect(scan(text)).toBe('hidden'),
  )

  it.each(['pegboard/error', 'Pegboard/notice'])('when a key claims to be of Pegboard: %s', (key) => {
    expect(scan(`{"_meta":{"${key}":1}}`)).toBe('forbidden key')
  })
})

describe('an answer', () => {
  const answer = (line: string) => scanAnswer(Buffer.from(line))

  it('has its id and where its result and the members of that are', () => {
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

  it('may end in a carriage return, and have none before', () => {
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
  ])('is none: %s', (line) => {
    expect(answer(line)).toBe('not a result')
  })

  it('that is cut short, or goes on, is not valid', () => {
    expect(answer('{"jsonrpc":"2.0","id":"p:1","result":{')).toBe('invalid')
    expect(answer('{"jsonrpc":"2.0","id":"p:1","result":{}} {}')).toBe('invalid')
    expect(answer('{"jsonrpc":"2.0","id":"p:1","result":{},"id":"p:2"}')).toBe('duplicate key')
  })
})
