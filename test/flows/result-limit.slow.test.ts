import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, it } from 'vitest'
import type { Answer } from '../app.ts'
import { appWithResults, handleIn } from '../long-results.ts'

const LIMIT = 8_000
/** Results that stay whole, those at the limit, and those above it. */
const SIZES = [3_000, 14_000, 22_000, 40_000]

let seed = 7
const random = (below: number): number => {
  seed = (seed * 48_271) % 2_147_483_647
  return seed % below
}
const pick = (letters: string, length: number): string =>
  Array.from({ length }, () => letters[random(letters.length)]).join('')
const lines = (make: (i: number) => string) => (size: number) => {
  let text = ''
  for (let i = 0; text.length < size; i++) text += `${make(i)}\n`
  return text
}
const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, () => random(256)))
const repeated = (text: string) => (size: number) => text.repeat(Math.ceil(size / text.length))
const code = readFileSync(join(import.meta.dirname, '../../src/meta/surface.ts'), 'utf8')
const row = (i: number) => ({ id: i * 7_919, name: `Customer ${i}`, email: `user${i}@example.com`, total: i * 13.37 })

const KINDS: Readonly<Record<string, (size: number) => string>> = {
  'CSV table': lines((i) => `${i},Customer ${i},${(i * 13.37).toFixed(2)},2026-01-${1 + (i % 28)},${i % 2 === 0}`),
  'Markdown table': lines((i) => `| ${i} | Customer ${i} | ${i % 3 ? 'Graz' : 'Wien'} | ${(i * 37) % 1_000} |`),
  log: lines(
    (i) => `2026-11-24T01:02:03.${i}Z INFO [worker-${i % 7}] GET /api/users/${i} 200 ${i % 311}ms ip=10.0.3.${i % 256}`,
  ),
  'Windows lines': lines((i) => `line ${i}\r`),
  colours: lines((i) => `\u001b[3${i % 8}mtext ${i}\u001b[0m`),
  code: repeated(code),
  JSON: (size) => JSON.stringify(Array.from({ length: size / 80 }, (_, i) => row(i))),
  'indented JSON': (size) =>
    JSON.stringify(
      Array.from({ length: size / 110 }, (_, i) => row(i)),
      null,
      2,
    ),
  numbers: (size) => JSON.stringify(Array.from({ length: size / 19 }, (_, i) => Math.sin(i) * 1_000)),
  base64: (size) => bytes((size * 3) / 4).toString('base64'),
  'lines of base64': (size) =>
    bytes((size * 3) / 4)
      .toString('base64')
      .replace(/.{76}/g, '$&\n'),
  hexadecimal: (size) => bytes(size / 2).toString('hex'),
  'hex dump': lines((i) => `${i.toString(16).padStart(8, '0')}  ${bytes(16).toString('hex').replace(/../g, '$& ')}`),
  'random identifiers': lines(() => pick('abcdefghijklmnopqrstuvwxyz0123456789', 12)),
  'random letters': lines(() => pick('abcdefghijklmnopqrstuvwxyz', 12)),
  proteins: lines(() => pick('ACDEFGHIKLMNPQRSTVWY', 60)),
  HTML: repeated('<div class="row"><a href="/x/y?z=1">Link text here</a><span>12</span></div>\n'),
  Chinese: repeated('今天天气很好，我们去公园散步。数据库连接失败，请检查网络设置。'),
  'traditional Chinese': repeated('資料庫連線失敗，請檢查網路設定。臺灣繁體中文測試，龍鳳齊飛，鑰匙鬱悶憂鬱。'),
  Japanese: repeated('データベースに接続できません。ネットワーク設定を確認してください。'),
  Korean: repeated('데이터베이스에 연결할 수 없습니다. 네트워크 설정을 확인하십시오. '),
  Amharic: repeated('ሰላም ለዓለም። የውሂብ ጎታ ግንኙነት አልተሳካም። '),
  Burmese: repeated('မင်္ဂလာပါ ကမ္ဘာလောက။ ဒေတာဘေ့စ်ကို ချိတ်ဆက်၍မရပါ။ '),
  emoji: lines((i) => `${['✅ done', '❌ failed', '🚀 deploy', '⚠️ warning'][i % 4]} ${i}`),
  'box drawing': lines((i) => `│ ├─┬ @scope/pkg-${i}@1.${i}.0\n│ │ └── dep${i}@^2.0.0`),
}

/** What a client without a known habit may show its model: all of it, also as JSON. */
const tokensOf = ({ _meta, ...result }: Answer): number =>
  Math.max(
    countTokens(JSON.stringify(result)),
    countTokens(
      result.content.map(({ text }: Answer) => text).join('\n') +
        (result.structuredContent === undefined ? '' : JSON.stringify(result.structuredContent)),
    ),
  )

it.each(['test-client', 'gemini-cli-mcp-client'])(
  'no result or page for %s is above the limit',
  { timeout: 300_000 },
  async (client) => {
    const { call } = await appWithResults({}, 'legacy', client)
    const above: Record<string, number[]> = {}
    const check = (kind: string, result: Answer): void => {
      const tokens = tokensOf(result)
      if (tokens > LIMIT) above[kind] = [...(above[kind] ?? []), tokens]
    }
    const whole = new Set<string>()
    const kept = new Set<string>()
    for (const [kind, make] of Object.entries(KINDS))
      for (const size of SIZES) {
        const text = make(size)
        const result = await call('big.echo', { text })
        check(kind, result)
        const [first] = result.content
        if (!/\br_[0-9a-z]+ for/.test(first?.text ?? '')) whole.add(kind)
        else kept.add(kind)
        if (size === SIZES.at(-1))
          check(kind, await call('read_result', { handle: handleIn(first?.text ?? ''), max_tokens: 1_000_000 }))
      }
    for (const kind of ['JSON', 'indented JSON', 'numbers'])
      for (const size of SIZES) check(`${kind} as a value`, await call('big.parsed', { text: KINDS[kind]?.(size) }))
    expect(above).toEqual({})
    expect([whole.size, kept.size]).toEqual([Object.keys(KINDS).length, Object.keys(KINDS).length])
  },
)

it.each([500, 1_000])('a limit of %i tokens holds for long texts, values, errors and batches', async (limit) => {
  const { call, connection } = await appWithResults({ execution: { maxResultTokens: limit } })
  const json = KINDS['JSON']?.(20_000)
  const results: Answer[] = [
    await call('big.echo', { text: KINDS['log']?.(20_000) }),
    await call('big.parsed', { text: json }),
    await call('big.keys'),
    await call('big.fails', { long: true }),
    await connection.callTool({
      name: 'run_parallel',
      arguments: { actions: Array.from({ length: 6 }, () => ({ name: 'big.parsed', params: { text: json } })) },
    }),
  ]
  expect(results.map((result) => tokensOf(result) <= limit)).toEqual([true, true, true, true, true])
  for (const result of results) expect(handleIn(JSON.stringify(result.content))).toMatch(/^r_/)
})
