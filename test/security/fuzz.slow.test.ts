import Ajv2020 from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readJson } from '../../src/agent/loose-json.ts'
import { parseJsonc } from '../../src/config/jsonc.ts'
import { scanAnswer, scanValue } from '../../src/core/json-scanner.ts'
import { createLineReader } from '../../src/core/line-reader.ts'
import { rawBytes, rawResult } from '../../src/core/raw-result.ts'
import { toSchema } from '../../src/core/schema.ts'
import { parseMessage } from '../../src/server/jsonrpc-message.ts'
import { fuzz, fuzzRuns, randomFrom } from '../fuzz.ts'

/** Generates 2020-12 schemas of a few keywords, and related values. */
function inventor(seed: number) {
  const random = randomFrom(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  const some = <T>(most: number, make: () => T): T[] => Array.from({ length: 1 + Math.floor(random() * most) }, make)
  const keys = ['a', 'b', 'c', 'a/b', 'x~y', '%41']
  const types = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
  const small = () => Math.floor(random() * 4)
  const value = (depth = 0): unknown => {
    const kind = random()
    if (depth > 2 || kind < 0.55)
      return pick([null, true, false, 0, 1, -1, 1.5, 2, 3, 10, '', 'a', 'ab', 'abc', '\u{1F600}'])
    const empty = random() < 0.2
    if (kind < 0.75) return empty ? [] : some(3, () => value(depth + 1))
    return Object.fromEntries(empty ? [] : some(3, () => [pick(keys), value(depth + 1)]))
  }
  const distinct = (list: unknown[]): unknown[] => [...new Map(list.map((one) => [JSON.stringify(one), one])).values()]
  const below = (depth: number) => schema(depth + 1)
  const list = (depth: number) => some(2, () => below(depth))
  const keywords: Readonly<Record<string, (depth: number) => unknown>> = {
    type: () => (random() < 0.7 ? pick(types) : [...new Set(some(3, () => pick(types)))]),
    enum: () => distinct(some(3, () => value(1))),
    const: () => value(1),
    ...Object.fromEntries(
      'minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains'
        .split(' ')
        .map((name) => [name, small]),
    ),
    multipleOf: () => pick([1, 2, 0.5]),
    pattern: () => pick(['^a', 'b$', '^[a-c]+$', '.', '^.$']),
    uniqueItems: () => random() < 0.7,
    required: () => [...new Set(some(2, () => pick(keys)))],
    properties: (depth) => Object.fromEntries(some(2, () => [pick(keys), below(depth)])),
    patternProperties: (depth) => ({ [pick(['^a', 'b'])]: below(depth) }),
    dependentRequired: () => ({ [pick(['a', 'b'])]: [pick(keys)] }),
    dependentSchemas: (depth) => ({ [pick(['a', 'b'])]: below(depth) }),
    ...Object.fromEntries(
      'additionalProperties propertyNames items contains not if then else'.split(' ').map((name) => [name, below]),
    ),
    ...Object.fromEntries('prefixItems allOf anyOf oneOf'.split(' ').map((name) => [name, list])),
    $ref: () => '#/$defs/d',
  }
  const schema = (depth = 0): unknown => {
    if (depth > 2) return pick([true, false, {}, { type: pick(types) }])
    if (depth > 0 && random() < 0.1) return random() < 0.5
    return Object.fromEntries(
      some(3, () => {
        const name = pick(Object.keys(keywords))
        return [name, keywords[name]?.(depth)]
      }),
    )
  }
  return { value, whole: () => ({ ...(schema() as object), $defs: { d: schema(3) } }) }
}

test('our validator and Ajv agree on random schemas and values', () => {
  let compared = 0
  fc.assert(
    fc.property(fc.integer(), (seed) => {
      const { value, whole } = inventor(seed)
      const schema = whole()
      const reference = new Ajv2020.Ajv2020({ strict: false, validateFormats: false }).compile(schema)
      const ours = toSchema(schema)
      for (let n = 0; n < 8; n++) {
        const given = value()
        compared++
        expect(ours.parse(given).ok, `${JSON.stringify(schema)} on ${JSON.stringify(given)}`).toBe(reference(given))
      }
    }),
    fuzz(250),
  )
  expect(compared).toBe(8 * fuzzRuns(250))
}, 60_000)

test.each(['toString', 'constructor', '__proto__', 'hasOwnProperty'])(
  'a name of Object.prototype is not a property: %s',
  (name) => {
    const named = (inner: unknown) => JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(inner)}}`)
    const ok = (schema: object, value: unknown) => toSchema(schema).parse(value).ok
    expect(ok({ required: [name] }, {})).toBe(false)
    expect(ok({ properties: named({ type: 'number' }) }, {})).toBe(true)
    expect(ok({ properties: named({ type: 'number' }) }, named('x'))).toBe(false)
    expect(ok({ properties: { a: {} }, additionalProperties: false }, named(1))).toBe(false)
    expect(ok({ dependentRequired: named(['x']) }, {})).toBe(true)
  },
)

/** JSON in unusual notations: spaces, unnecessary escapes, long numbers, duplicate keys, lone surrogates. */
const jsonText = fc.letrec<{ value: string; text: string }>((tie) => ({
  text: fc
    .array(
      fc.oneof(
        { weight: 6, arbitrary: fc.constantFrom('a', 'uri', ' ', 'é', '天', '\u{1F600}', '\\n', '\\"', '\\\\', '\\/') },
        fc.constantFrom(
          '\\u0061',
          '\\ud83d\\ude00',
          '\\ud800',
          '\\udc00x',
          '\u202e',
          '\\u202e',
          '\u007f',
          '\\u0000',
          '\u{e0041}',
          '\\b',
        ),
      ),
      { maxLength: 6 },
    )
    .map((parts) => `"${parts.join('')}"`),
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(
      'null',
      'true',
      'false',
      '0',
      '-0',
      '1.50',
      '1e3',
      '-1E-2',
      '1234567890123456789',
      '0.1234567890123456789',
    ),
    tie('text'),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(' ,')}]`),
    fc
      .array(
        fc.tuple(
          fc.oneof(tie('text'), fc.constantFrom('"a"', '"type"', '"text"', '"uri"', '"__proto__"')),
          tie('value'),
        ),
        {
          maxLength: 3,
        },
      )
      .map((entries) => `{${entries.map(([key, value]) => `${key}: ${value}`).join(',\t')}}`),
  ),
}))

const parsed = (text: string): unknown => {
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return 'refused'
  }
}

/** A number that JavaScript cannot represent is read as text. */
const rounded = (value: unknown): unknown =>
  typeof value === 'string' && /^-?\d[\d.eE+-]*$/.test(value)
    ? Number(value)
    : Array.isArray(value)
      ? value.map(rounded)
      : typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, rounded(one)]))
        : value

test('a response that is passed on as bytes reads like JSON.parse reads it, with every digit', () => {
  let clean = 0
  fc.assert(
    fc.property(jsonText.value, jsonText.value, fc.nat(40), (content, structured, size) => {
      const result = `{"content":[{"type":"text","text":${JSON.stringify(content)}}],"structuredContent":${structured},"x":${content}}`
      const line = Buffer.from(`{"jsonrpc":"2.0","id":"p:1","result":${result}}`)
      const found = scanAnswer(line)
      if (typeof found === 'string') return
      const parts = Array.from({ length: Math.ceil(line.length / (size + 1)) }, (_, n) =>
        line.subarray(n * (size + 1), (n + 1) * (size + 1)),
      )
      const read = rawResult(parts, found)
      if (!read) return
      clean++
      expect(rounded({ ...read })).toEqual(rounded(JSON.parse(result)))
      expect(Buffer.concat([...(rawBytes(read) ?? [])]).toString()).toBe(result)
      // Nothing that another reader could parse differently.
      expect(JSON.stringify(JSON.parse(result)).length).toBeGreaterThan(0)
      expect(Buffer.concat([...(rawBytes(read) ?? [])]).toString('utf8')).not.toMatch(
        /[\u202e\u{e0041}]|\\u202e|\\ud800/iu,
      )
    }),
    fuzz(2_000),
  )
  expect(clean).toBeGreaterThan(100)
})

test('truncated or changed bytes are never passed on if JSON.parse rejects them', () => {
  fc.assert(
    fc.property(jsonText.value, fc.nat(255), fc.nat(), (value, byte, place) => {
      const whole = Buffer.from(`{"jsonrpc":"2.0","id":"p:1","result":{"content":[],"v":${value}}}`)
      for (let end = 0; end < whole.length; end++) expect(typeof scanAnswer(whole.subarray(0, end))).toBe('string')
      const changed = Buffer.from(whole)
      changed[place % whole.length] = byte
      const found = scanAnswer(changed)
      if (typeof found !== 'string') expect(parsed(changed.toString())).not.toBe('refused')
      if (scanValue(changed) === undefined) expect(parsed(changed.toString())).not.toBe('refused')
    }),
    fuzz(300),
  )
})

test('lines do not depend on the chunks of a stream, and a line that is too long affects no other', () => {
  const line = fc.oneof(
    { weight: 5, arbitrary: jsonText.value },
    fc.constantFrom('', '\r', 'x'.repeat(300), ' ', '{"a":', '\u{1F600}'.repeat(60)),
  )
  fc.assert(
    fc.property(
      fc.array(line, { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
      (lines, cuts) => {
        const bytes = Buffer.from(lines.map((one) => `${one.replaceAll('\n', ' ')}\n`).join(''))
        const heard: string[] = []
        const feed = createLineReader(200, {
          frame: (text, parts) => {
            expect(Buffer.concat([...parts]).equals(text)).toBe(true)
            heard.push(text.toString())
          },
          oversize: (_head, _tail, size) => heard.push(`${size} bytes`),
        })
        for (let at = 0, n = 0; at < bytes.length; n++) {
          const size = cuts[n % cuts.length] as number
          feed(Buffer.from(bytes.subarray(at, at + size)))
          at += size
        }
        const expected = lines
          .map((one) => one.replaceAll('\n', ' '))
          .filter((one) => one !== '')
          .map((one) => (Buffer.byteLength(one) > 200 ? `${Buffer.byteLength(one)} bytes` : one))
        expect(heard).toEqual(expected)
      },
    ),
    fuzz(1_000),
  )
})

test('any text is either a message or rejected with a code, and never throws', () => {
  const member = fc.constantFrom(
    'jsonrpc',
    'id',
    'method',
    'params',
    'result',
    'error',
    '__proto__',
    'Method',
    'constructor',
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(member, jsonText.value), { maxLength: 5 }), (members) => {
      const text = `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join()}}`
      const read = parseMessage(text)
      if (!read.ok) expect([-32700, -32600, -32602]).toContain(read.code)
      if (!read.ok) return
      expect(Object.getPrototypeOf(read.message)).toBe(Object.prototype)
      expect(read.message.jsonrpc).toBe('2.0')
      expect(
        Object.keys(read.message).every((key) =>
          ['jsonrpc', 'id', 'method', 'params', 'result', 'error'].includes(key),
        ),
      ).toBe(true)
    }),
    fuzz(2_000),
  )
  expect(({} as Record<string, unknown>)['method']).toBeUndefined()
})

test('JSON of models and operators reads like JSON.parse reads it', () => {
  fc.assert(
    fc.property(jsonText.value, (text) => {
      const expected = JSON.parse(text)
      expect(readJson(text, 0)).toEqual({ value: expected, end: text.length })
      if (text.startsWith('{') && !/__proto__|\p{Cc}(?<!\t)/u.test(text)) expect(outcome(text)).toEqual(expected)
    }),
    fuzz(1_500),
  )
})

/** A configuration rejects duplicate keys and integers that would be rounded. */
function outcome(text: string): unknown {
  try {
    return parseJsonc(text).value
  } catch (error) {
    return /twice|would be rounded/.test(String(error)) ? JSON.parse(text) : error
  }
}
