import { expect, it } from 'vitest'
import { scanAnswer } from '../../src/core/json-scanner.ts'
import { rawBytes, rawResult } from '../../src/core/raw-result.ts'
import type { McpResult } from '../../src/core/tool-result.ts'
import { createInspections, inspect, secretsIn } from '../../src/exec/inspect-data.ts'

// Concatenated, so that secret scanners do not report it.
const SECRETS = {
  'aws-access-key': `AKIA${'IOSFODNN7EXAMPLE'}`,
  'github-token': `ghp_${'0123456789abcdefghijABCDEFGHIJ012345'}`,
  'gitlab-token': `glpat-${'aB3-'.repeat(5)}`,
  'slack-webhook': `hooks.slack.com/services/${'T0A1/'.repeat(8)}x`,
  'google-api-key': `AIza${'aB3-'.repeat(9).slice(1)}`,
  'databricks-token': `dapi${'a1b2'.repeat(8)}`,
  'private-key': '-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END RSA PRIVATE KEY-----',
  jwt: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U',
  'login-in-address': 'postgres://ann:hunter2-canary@db.example/x',
}
const PARTS = /IOSFODNN|01234567|aB3-aB3|T0A1|a1b2a1|MIIEvQ|dozjgN|hunter2-canary/

/** The JSON of a text with some characters escaped. */
const escaped = (text: string, which: RegExp): string =>
  `"${text
    .split('')
    .map((unit) =>
      which.test(unit) ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}` : JSON.stringify(unit).slice(1, -1),
    )
    .join('')}"`
const WRITINGS: Readonly<Record<string, (text: string) => string>> = {
  plain: (text) => JSON.stringify(text),
  'slashes escaped': (text) => JSON.stringify(text).replaceAll('/', '\\/'),
  'punctuation escaped': (text) => escaped(text, /[-_.:/@ ]/),
  'digits escaped': (text) => escaped(text, /\d/),
  'letters escaped': (text) => escaped(text, /[A-Za-z]/),
  'everything escaped': (text) => escaped(text, /[\s\S]/),
}
const PLACES: Readonly<Record<string, (text: string) => string>> = {
  text: (text) => `{"content":[{"type":"text","text":${text}}]}`,
  key: (text) => `{"content":[],"structuredContent":{"a":[{${text}:1}]}}`,
  value: (text) => `{"content":[],"structuredContent":{"a":[${text}]}}`,
  resource: (text) => `{"content":[{"type":"resource","resource":{"uri":"x://1","text":${text}}}]}`,
  description: (text) => `{"content":[{"type":"resource_link","uri":"x://1","name":"x","description":${text}}]}`,
}

/** The result as it arrives from a server, in chunks of this length; as raw bytes if they are clean. */
function received(json: string, length = Number.MAX_SAFE_INTEGER): McpResult {
  const line = Buffer.from(`{"jsonrpc":"2.0","id":"p:1","result":${json}}`)
  const answer = scanAnswer(line)
  const parts: Buffer[] = []
  for (let at = 0; at < line.length; at += length) parts.push(line.subarray(at, at + length))
  return (typeof answer !== 'string' && rawResult(parts, answer)) || JSON.parse(json)
}

it.each(Object.entries(SECRETS))('finds a secret however its server writes JSON: %s', (kind, secret) => {
  const redact = createInspections([]).of('redact', undefined)
  if (!redact) throw new Error('nothing is redacted')
  for (const [writing, write] of Object.entries(WRITINGS))
    for (const said of [secret, `東京😀\n${secret}`, `a\t${secret}\n`, `a\r\n${secret}`, `"${secret}"`])
      for (const [place, put] of Object.entries(PLACES)) {
        const where = [writing, said, place]
        expect([where, secretsIn(received(put(write(said))))]).toEqual([where, [kind]])
        const { result } = inspect({ kind: 'mcp', result: received(put(write(said))) }, redact) as { result: object }
        expect([where, JSON.stringify(result)]).toEqual([where, expect.stringContaining('[redacted]')])
        expect([where, JSON.stringify(result).match(PARTS)]).toEqual([where, null])
      }
})

it.each(Object.entries(SECRETS))(
  'redacts a secret in JSON that is the text of a result, however that is written: %s',
  (_kind, secret) => {
    const redact = createInspections([]).of('redact', undefined)
    if (!redact) throw new Error('nothing is redacted')
    for (const [writing, write] of Object.entries(WRITINGS))
      for (const inner of [
        `{"note":${write(`a\n${secret}`)}}`,
        `[{${write(secret)}:[1]}]`,
        `{"a":{"b":${write(`\t${secret}`)}}}`,
      ]) {
        const outer = received(`{"content":[{"type":"text","text":${JSON.stringify(inner)}}]}`)
        const kept = inspect({ kind: 'mcp', result: outer }, redact) as { readonly result: McpResult }
        const text = String(kept.result.content?.[0]?.['text'])
        expect([writing, inner, text]).toEqual([writing, inner, expect.stringContaining('[redacted]')])
        expect([writing, inner, text.match(PARTS)]).toEqual([writing, inner, null])
      }
  },
)

it.each([1, 7, 1_000, 1_024, 1_025, 3_000])('finds a secret at any boundary of chunks of %i bytes', (length) => {
  const long = `redis://${'u'.repeat(256)}:${'p'.repeat(250)}@db`
  for (const [kind, secret] of [...Object.entries(SECRETS), ['login-in-address', long]] as const)
    for (const filler of [0, 900, 1_010, 2_040, 2_990, 3_000])
      expect([
        kind,
        filler,
        secretsIn(
          received(`{"content":[{"type":"text","text":${JSON.stringify(`${'x'.repeat(filler)} ${secret}`)}}]}`, length),
        ),
      ]).toEqual([kind, filler, [kind]])
})

it('leaves bytes without a secret unchanged', () => {
  const redact = createInspections([]).of('redact', undefined)
  const result = received(
    '{"content":[{"type":"text","text":"task-list of 東京: AI, SG and hf, see https://a.example/b"}]}',
  )
  expect(secretsIn(result)).toEqual([])
  expect(rawBytes((inspect({ kind: 'mcp', result }, redact as never) as { result: object }).result)).toBeDefined()
})
