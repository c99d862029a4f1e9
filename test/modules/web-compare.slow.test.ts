import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeEach, describe, expect, it } from 'vitest'
import { startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { serve } from './web-servers.ts'

const PROGRAM = join(import.meta.dirname, '../optional/node_modules/mcp-fetch-server/dist/index.js')
const PRELOAD = pathToFileURL(join(import.meta.dirname, '../fixtures/upstreams/public-pages.mjs')).href

const WORDS = 'Rivers carry water from the mountains to the sea, and with it, over the years, a part of the mountains.'
const ARTICLE = `<!doctype html><html lang="en"><head><title>Rivers</title><style>.x { color: blue }</style></head><body>
<nav><a href="/">Start</a> <a href="/shop">Shop</a></nav><article><h1>Rivers</h1>
${`<p>${WORDS} See <a href="/lakes">lakes</a>.</p>`.repeat(5)}<h2>Long ones</h2>
<ul><li>Nile</li><li>Amazon</li></ul><pre><code class="language-py">flow(1)</code></pre>
<table><thead><tr><th>River</th><th>Length</th></tr></thead><tbody><tr><td>Nile</td><td>6650 km</td></tr></tbody></table>
<p>${WORDS}</p></article><script>track('me')</script></body></html>`
const PAGES: Readonly<Record<string, readonly [number, string, string]>> = {
  '/rivers': [200, 'text/html; charset=utf-8', ARTICLE],
  '/list': [200, 'text/html', '<title>List</title><ul><li><a href="/a">A</a></li><li><a href="/b">B</a></li></ul>'],
  '/data': [200, 'application/json', '{"rivers":["Nile","Amazon"]}'],
  '/long': [200, 'text/plain', Array.from({ length: 4_000 }, (_, at) => `${at}`).join(' ')],
  '/gone': [404, 'text/html', '<h1>It dried up</h1>'],
}

interface Answer {
  readonly isError: boolean
  readonly text: string
  readonly data: Record<string, unknown>
}

/** Our call and theirs of the same page, with its address removed from the results. */
let both: (
  own: readonly [string, object],
  other: readonly [string, object],
  path: string,
) => Promise<readonly [Answer, Answer]>

const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{N}]+/gu) ?? []

// Installed separately: npm ci --prefix test/optional
const missing = !existsSync(PROGRAM)
describe.skipIf(missing && !process.env.CI)('fetch_url beside mcp-fetch-server, on the same pages', () => {
  beforeEach(async () => {
    const url = await serve((request, answer) => {
      const [status, type, body] = PAGES[request.url ?? ''] ?? [500, 'text/plain', 'no such page']
      answer.writeHead(status, { 'content-type': type }).end(body)
    })
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      modules: { web: { config: { access: 'read', fetch: { allow_private_network: true } } } },
      mcpServers: {
        theirs: { command: 'node', args: ['--import', PRELOAD, PROGRAM], env: { PAGES: url }, start: 'eager' },
      },
    })
    const client = await connectTo(app)
    await expect
      .poll(async () => (await client.listTools()).tools.map(({ name }) => name), { timeout: 30_000 })
      .toContain('theirs__fetch_readable')
    const call = async (name: string, input: object, host: string): Promise<Answer> => {
      const found = (await client.callTool({ name, arguments: { ...input } })) as {
        isError?: boolean
        content: { text?: string }[]
        structuredContent?: Record<string, unknown>
      }
      const data = found.structuredContent ?? {}
      const text = String(data['content'] ?? data['text'] ?? found.content.map((block) => block.text).join('\n'))
      return { isError: found.isError === true, text: text.replaceAll(host, ''), data }
    }
    both = async ([own, input], [other, args], path) => [
      await call(`web__${own}`, { url: `${url}${path}`, ...input }, url),
      await call(`theirs__${other}`, { url: `http://pages.example${path}`, ...args }, 'http://pages.example'),
    ]
  })

  it('returns the same article content, and also its tables and full links', async () => {
    const [ours, theirs] = await both(['fetch_url', {}], ['fetch_readable', {}], '/rivers')
    expect(theirs.text).toContain(WORDS)
    const known = new Set(wordsOf(ours.text))
    expect(wordsOf(theirs.text).filter((word) => !known.has(word))).toEqual([])
    expect(ours.text).toContain('| Nile | 6650 km |')
    expect(theirs.text).not.toContain('| Nile |')
    expect(ours.text).toContain('```py\nflow(1)\n```')
    expect(ours.data).toMatchObject({ title: 'Rivers', total_length: ours.data['content']?.toString().length })
    for (const { text } of [ours, theirs]) expect(text).not.toMatch(/Shop|track|color: blue/)
  })

  it('reads a page without an article better, and no scripts', async () => {
    const [ours, theirs] = await both(['fetch_url', {}], ['fetch_readable', {}], '/list')
    expect(ours.text).toBe('- [A](/a)\n- [B](/b)')
    expect(theirs.isError || wordsOf(theirs.text).length <= wordsOf(ours.text).length).toBe(true)
    const [, markdown] = await both(['fetch_url', {}], ['fetch_markdown', {}], '/rivers')
    expect(markdown.text).toContain('track')
  })

  it('returns text, source and JSON like it does', async () => {
    const [text, txt] = await both(['extract', { mode: 'text' }], ['fetch_txt', {}], '/rivers')
    // Theirs joins words of adjacent elements.
    expect(wordsOf(text.text).join('')).toBe(wordsOf(txt.text).join(''))
    expect(text.text).toMatch(/River\s+Length/)
    expect(txt.text).toContain('RiverLength')
    const [raw, html] = await both(['fetch_url', { raw: true }], ['fetch_html', {}], '/rivers')
    expect(raw.text).toBe(html.text)
    const [data, json] = await both(['fetch_url', {}], ['fetch_json', {}], '/data')
    expect(JSON.parse(data.text)).toEqual(JSON.parse(json.text))
  })

  it('returns the same part of a long page, and where to continue', async () => {
    const part = { max_length: 1_000, start_index: 2_000 }
    const [ours, theirs] = await both(['fetch_url', part], ['fetch_html', part], '/long')
    expect(ours.text).toBe(theirs.text)
    expect(ours.data).toMatchObject({ next_start_index: 3_000 })
    const end = { start_index: 100_000 }
    const [over, nothing] = await both(['fetch_url', end], ['fetch_html', end], '/long')
    expect([over.data['note'], nothing.text]).toEqual(['End of the page (18889 characters).', ''])
  })

  it("fails where it fails, and returns the page's error text", async () => {
    const [ours, theirs] = await both(['fetch_url', {}], ['fetch_readable', {}], '/gone')
    expect([ours.isError, theirs.isError]).toEqual([true, true])
    expect(ours.text).toMatch(/^E_TOOL_FAILED: Failed to fetch the page: status 404\. The page says: It dried up\b/)
  })
})
