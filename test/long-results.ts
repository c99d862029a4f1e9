import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { startApp, temporaryFolder } from './app.ts'
import { connectTo, type Era } from './client.ts'

/** Ten results that are too long for a model. */
export const LONG_RESULTS = [
  'log',
  'table',
  'page',
  'picture',
  'deep',
  'keys',
  'numbers',
  'minified',
  'unicode',
  'json',
]

const MODULE = `
import { ToolError } from 'pegboard'
const line = (i) => \`2026-11-24T01:02:03Z \${i % 5_000 === 4_999 ? 'ERROR' : 'INFO'} worker-\${i % 7} request \${i} took \${i % 311} ms\`
const row = (i) => ({ id: i, name: \`Customer \${i}\`, city: i % 3 ? 'Graz' : 'Wien', total: (i * 37) % 1_000, open: i % 2 === 0 })
const picture = Buffer.alloc(3_000_000, 7)
const deep = (levels) => (levels === 0 ? { end: 'x'.repeat(50) } : { level: levels, next: deep(levels - 1), list: [levels, levels + 1] })
const results = {
  log: () => Array.from({ length: 800_000 }, (_, i) => line(i)).join('\\n'),
  table: () => Array.from({ length: 100_000 }, (_, i) => row(i)),
  page: () => '<p>' + 'The quick brown fox <b>jumps</b> over the lazy dog. '.repeat(100_000) + '</p>',
  picture: () => picture.toString('base64'),
  deep: () => deep(1_200),
  json: ({ count = 20_000 }) => JSON.stringify({ total: count, items: Array.from({ length: count }, (_, i) => row(i)) }),
  rows: ({ count }) => Array.from({ length: count }, (_, i) => row(i)),
  words: ({ count }) => 'word '.repeat(count),
  echo: ({ text }) => text,
  parsed: ({ text }) => JSON.parse(text),
  quotes: () => 'He said "no".\\nThen {"a":"b"}',
  file: ({ bytes, mimetype }, ctx) => { ctx.sendFile({ data: Buffer.alloc(bytes, 1), filename: 'a.bin', mimetype }); return 'sent' },
  fails: ({ long }) => { throw new ToolError('No such row.' + (long ? ' Row 17 of the table is missing.'.repeat(3_000) : '')) },
  keys: () => Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [\`key_\${i}\`, { value: i }])),
  numbers: () => Array.from({ length: 200_000 }, (_, i) => Math.sin(i)),
  minified: () => 'var a=1;'.repeat(300_000),
  unicode: () => '数据库连接失败，请检查网络设置。'.repeat(50_000),
}
export default {
  id: 'big',
  tools: Object.entries(results).map(([name, make]) => ({
    name,
    description: \`A long \${name}.\`,
    effect: 'read',
    parameters: { type: 'object', properties: {}, additionalProperties: true },
    run: async (input, ctx) => make(input, ctx),
  })),
}
`

/** The whole product in discovery mode, with a module that returns them. */
export async function appWithResults(settings: object = {}, era: Era = 'legacy', client = 'test-client') {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'big.mjs'), MODULE)
  const { app } = await startApp({ exposure: { mode: 'discovery' }, ...settings }, dir)
  const connection = await connectTo(app, era, {}, 'default', client)
  const call = async (name: string, params: object = {}, more: object = {}) =>
    (await connection.callTool({ name: 'execute_tool', arguments: { name, params, ...more } })) as {
      content: Array<{ type: string; text: string }>
      structuredContent?: unknown
      isError?: boolean
    }
  const text = async (name: string, params: object = {}) =>
    (await call(name, params)).content.map((one) => one.text).join('\n')
  return { app, dir, connection, call, text }
}

/** The handle that a text names. */
export const handleIn = (text: string): string => /\br_[0-9a-z]+/.exec(text)?.[0] ?? expect.fail(text)
