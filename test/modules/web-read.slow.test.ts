import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { readPage } from '../../modules/_page.ts'
import { createReader } from '../../modules/web/reader.ts'
import { startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { callsOf, place, talkTo } from '../process.ts'
import { type Asked, crawl4aiApi, open, serve } from './web-servers.ts'

const PARAGRAPH =
  'Cats are small animals that have lived with people for a very long time, and nobody knows, to this day, who of the two decided on it.'
const ARTICLE = `<!doctype html><html lang="en"><head><title>About cats | The Site</title>
<meta name="author" content="Ada Lovelace"><meta property="article:published_time" content="2026-01-02T03:04:05Z">
<meta name="description" content="All one has to know."><style>p { color: red }</style></head><body>
<nav><ul><li><a href="/1">Home</a></li><li><a href="/2">Shop</a></li></ul></nav>
<article><h1>About cats</h1>${`<p>${PARAGRAPH} See <a href="/more?a=1&amp;b=2">more</a>.</p>`.repeat(4)}
<h2>Kinds</h2><ul><li>House cat</li><li>Wild cat<ul><li>Lynx</li></ul></li></ul>
<table><thead><tr><th>Name</th><th>Weight</th></tr></thead><tbody><tr><td>Tom</td><td>4 kg</td></tr></tbody></table>
<pre><code class="language-js">const cat = 'Tom'
meow(cat)</code></pre><p><img src="/tom.png" alt="Tom sleeping"> ${PARAGRAPH}</p></article>
<footer>All rights reserved</footer><script>alert('no')</script></body></html>`

const html = (page: string) =>
  serve((_, answer) => void answer.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page))

const ann = { principal: 'ann', signal: new AbortController().signal }

describe('fetch_url', () => {
  it("returns a page's content as Markdown, with absolute links, without the rest", async () => {
    const url = await html(ARTICLE)
    const { call } = await open()
    const found = await call('fetch_url', { url: `${url}/cats/about` })
    expect(found).toMatchObject({
      url: `${url}/cats/about`,
      title: 'About cats | The Site',
      byline: 'Ada Lovelace',
      published: '2026-01-02T03:04:05Z',
      content_type: 'text/html; charset=utf-8',
      start_index: 0,
      engine: 'mcp_fetch',
    })
    const text = String(found['content'])
    expect(text).toContain(`${PARAGRAPH} See [more](${url}/more?a=1&b=2).`)
    expect(text).toContain('## Kinds\n\n- House cat\n- Wild cat\n  - Lynx\n\n')
    expect(text).toContain('| Name | Weight |\n| --- | --- |\n| Tom | 4 kg |')
    expect(text).toContain("```js\nconst cat = 'Tom'\nmeow(cat)\n```")
    expect(text).toContain(`![Tom sleeping](${url}/tom.png)`)
    expect(text).not.toMatch(/alert|Home|Shop|All rights reserved|color: red/)
    expect(found['total_length']).toBe(text.length)
    expect(found).not.toHaveProperty('next_start_index')
  })

  it('returns the whole page if there is no article, and other content unchanged', async () => {
    const { call } = await open()
    const list = await html('<title>Links</title><h1>Links</h1><ul><li><a href="a">A</a><li><a href="b">B</a></ul>')
    expect(await call('fetch_url', { url: list })).toMatchObject({
      title: 'Links',
      content: `# Links\n\n- [A](${list}/a)\n- [B](${list}/b)`,
    })
    expect(await call('fetch_url', { url: list, raw: true })).toMatchObject({
      content: '<title>Links</title><h1>Links</h1><ul><li><a href="a">A</a><li><a href="b">B</a></ul>',
    })
    const data = await serve((_, answer) => answer.setHeader('content-type', 'application/json').end('{"a":[1,2]}'))
    expect(await call('fetch_url', { url: data })).toMatchObject({ content: '{"a":[1,2]}' })
    const latin = await serve((_, answer) =>
      answer
        .setHeader('content-type', 'text/html')
        .end(Buffer.from('<meta charset="iso-8859-1"><title>caf\xe9</title><p>d\xe9j\xe0 vu', 'latin1')),
    )
    expect(await call('fetch_url', { url: latin })).toMatchObject({ title: 'café', content: 'déjà vu' })
    const nothing = await html('<div id="root"></div><script>render()</script>')
    expect(await call('fetch_url', { url: nothing })).toMatchObject({
      content: '',
      note: 'The page has no text; scripts may create it.',
    })
    const binary = await serve((_, answer) =>
      answer.setHeader('content-type', 'application/zip').end(Buffer.from([1, 0, 2])),
    )
    await expect(call('fetch_url', { url: binary })).rejects.toMatchObject({
      message: 'The response is not text (application/zip).',
    })
    const gone = await serve((_, answer) =>
      answer.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Not here</h1>'),
    )
    await expect(call('fetch_url', { url: gone })).rejects.toMatchObject({
      message: 'Failed to fetch the page: status 404.',
      hint: 'The page says: Not here',
      data: { status: 404 },
    })
  })

  it('returns an image as an image', async () => {
    const url = await serve((_, answer) => answer.setHeader('content-type', 'image/png').end(Buffer.from('PNG')))
    const { call } = await open()
    const sent: unknown[] = []
    await call('fetch_url', { url: `${url}/cat.png` }, { sendFile: (file) => sent.push(file) })
    expect(sent).toMatchObject([{ filename: 'cat.png', mimetype: 'image/png' }])
  })

  it('reports wrong arguments with the wording agents know [TOM-25]', async () => {
    const { call, tool } = await open()
    const url = 'https://example.com/'
    for (const bad of [undefined, null, 7, '', '   '])
      await expect(call('fetch_url', { url: bad })).rejects.toThrow('URL is required and must be a non-empty string')
    for (const bad of [0, -1, 'x', 1.5])
      await expect(call('fetch_url', { url, max_length: bad })).rejects.toThrow('max_length must be a positive number')
    for (const bad of [-1, 'x', 1.5])
      await expect(call('fetch_url', { url, start_index: bad })).rejects.toThrow(
        'start_index must be a non-negative number',
      )
    await expect(call('fetch_url', { url, raw: 'yes' })).rejects.toThrow('raw must be true or false')
    expect(tool('web.fetch_url').provides).toBe('url_fetcher')
  })

  it('returns a long page in parts, with the next position and the end [TOM-30]', async () => {
    let page = Array.from({ length: 15_000 }, (_, at) => `${at} line`.padEnd(7, '.'))
      .join('\n')
      .slice(0, 119_999)
    page = `${page}\u{1f408}`.slice(0, 120_000) // Ends in the middle of a cat emoji.
    let asked = 0
    const url = await serve((_, answer) => {
      asked++
      answer.setHeader('content-type', 'text/plain; charset=utf-8').end(page.replace(/.$/, '!'))
    })
    const { call } = await open()
    let [text, next, calls] = ['', 0 as number | undefined, 0]
    const notes: unknown[] = []
    while (next !== undefined) {
      const part = await call('fetch_url', { url, max_length: 90_000, start_index: next })
      text += part['content']
      next = part['next_start_index'] as number | undefined
      notes.push(part['note'])
      calls++
    }
    expect([text.length, calls]).toEqual([120_000, 3])
    expect(text).toBe(page.replace(/.$/, '!'))
    expect(notes).toEqual([
      '70000 more characters. Continue with start_index 50000.',
      '20000 more characters. Continue with start_index 100000.',
      undefined,
    ])
    // All parts come from one fetch.
    expect(asked).toBe(1)
    expect(await call('fetch_url', { url, start_index: 130_000 })).toMatchObject({
      content: '',
      note: 'End of the page (120000 characters).',
    })
    const cat = await serve((_, answer) =>
      answer.setHeader('content-type', 'text/plain; charset=utf-8').end('a\u{1f408}b'),
    )
    const whole = await call('fetch_url', { url: cat, max_length: 2 })
    expect(whole).toMatchObject({ content: 'a', next_start_index: 1 })
    // A part that is shorter than a character would lead to the same part again.
    const short = await call('fetch_url', { url: cat, max_length: 1, start_index: 1 })
    expect(short).toMatchObject({ content: '\u{1f408}', next_start_index: 3 })
    let sent = 0
    const large = await serve((_, answer) => {
      answer.writeHead(200, { 'content-type': 'text/html', 'content-length': String(600 * 1024 * 1024) })
      const more = (): void =>
        void answer.write('x'.repeat(65_536), (error) => {
          if (error) return
          sent += 65_536
          more()
        })
      more()
    })
    await expect(call('fetch_url', { url: large })).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
      message: 'The page has 629145600 bytes; the limit is 5242880.',
    })
    expect(sent).toBeLessThan(8 * 1024 * 1024)
  })

  it('describes its limits once [TOM-31]', async () => {
    const url = await html(ARTICLE)
    const { app } = await startApp({
      exposure: { mode: 'direct', primitives: false },
      modules: { web: { config: { access: 'read', fetch: { allow_private_network: true } } } },
    })
    const client = await connectTo(app)
    const heard: unknown[] = []
    await client.callTool({ name: 'web__fetch_url', arguments: { url } }, { onprogress: (one) => heard.push(one) })
    expect(heard).toEqual([{ progress: 0, message: `reading ${new URL(url).host}` }])
  })
})

describe('addresses', () => {
  it('are checked before any request, and the refusal names the setting [TOM-26, TOM-27]', async () => {
    let hits = 0
    const canary = await serve((_, answer) => {
      hits++
      answer.end('seen')
    })
    const crawl4ai = await crawl4aiApi()
    const { port } = new URL(canary)
    const web = { config: { access: 'read', fetch: { crawl4ai_base_url: crawl4ai.url } } }
    const call = callsOf(await talkTo(place({ modules: { web } })))
    const errorOf = async (action: string, url: string) => {
      const { isError, content, structuredContent } = await call(`web.${action}`, { url })
      const { error, data } = structuredContent
      return { isError, text: content[0].text, code: error.code, reason: data?.reason }
    }
    const hosts = [
      '127.0.0.1',
      'localhost',
      '[::1]',
      '0.0.0.0',
      '10.0.0.1',
      '172.16.0.1',
      '192.168.1.1',
      '169.254.169.254',
      '100.64.0.1',
      '198.18.0.1',
      '192.0.2.1',
      '224.0.0.1',
      '240.0.0.1',
      '0x7f000001',
      '2130706433',
      '017700000001',
      '0177.0.0.1',
      '127.1',
      '[::ffff:10.0.0.1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[64:ff9b::7f00:1]',
      '[2002:7f00:1::]',
      '[::7f00:1]',
      '[fd00::1]',
      '[fe80::1]',
      '[ff02::1]',
      '[2001:db8::1]',
      '168.63.129.16',
    ]
    for (const host of hosts)
      for (const action of ['fetch_url', 'extract'])
        expect([host, action, await errorOf(action, `http://${host}:${port}/`)]).toEqual([
          host,
          action,
          {
            isError: true,
            text: expect.stringMatching(/^E_SSRF_BLOCKED: .*FETCH_URL_ALLOW_PRIVATE_NETWORK=false/s),
            code: 'E_SSRF_BLOCKED',
            reason: 'PRIVATE_NETWORK_BLOCKED',
          },
        ])
    for (const [url, text, reason] of [
      ['no address', /./, 'INVALID_FORMAT'],
      ['ftp://example.com/', /URL must use HTTP or HTTPS protocol\./, 'INVALID_PROTOCOL'],
      ['http://no-such-name.invalid/', /^E_DNS: /, 'DNS_RESOLUTION_FAILED'],
    ] as const)
      expect([url, await errorOf('fetch_url', url)]).toEqual([
        url,
        { isError: true, text: expect.stringMatching(text), code: expect.any(String), reason },
      ])
    expect([hits, crawl4ai.asked.filter(({ path }) => path === '/md')]).toEqual([0, []])

    const there = place({ modules: { web } })
    there.env['FETCH_URL_ALLOW_PRIVATE_NETWORK'] = 'yes'
    const allowed = callsOf(await talkTo({ ...there }))
    for (const host of ['169.254.169.254', '168.63.129.16', '169.254.1.1', '[fe80::1]'])
      expect((await allowed('web.fetch_url', { url: `http://${host}:${port}/` })).content[0].text, host).toMatch(
        /^E_SSRF_BLOCKED/,
      )
    await allowed('web.fetch_url', { url: canary })
    expect(hits + crawl4ai.asked.filter(({ path }) => path === '/md').length).toBeGreaterThan(0)
  })

  it('must be http or https without a password, and resolvable', async () => {
    const { call, warnings } = await open()
    for (const url of [
      'file:///etc/passwd',
      'ftp://example.com/',
      'gopher://x/',
      'data:text/html,x',
      'javascript:1',
      'ws://x/',
    ])
      await expect(call('fetch_url', { url })).rejects.toMatchObject({
        code: 'E_VALIDATION',
        message: 'URL must use HTTP or HTTPS protocol.',
        data: { reason: 'INVALID_PROTOCOL' },
      })
    await expect(call('fetch_url', { url: 'no address' })).rejects.toMatchObject({
      code: 'E_VALIDATION',
      data: { reason: 'INVALID_FORMAT' },
    })
    const refused = await call('fetch_url', { url: 'http://user:hunter2@example.com/' }).catch((error: Error) => error)
    expect(refused).toMatchObject({ code: 'E_SSRF_BLOCKED' })
    expect(JSON.stringify([String(refused), warnings, { ...(refused as object) }])).not.toContain('hunter2')
    await expect(call('fetch_url', { url: 'http://no-such-name.invalid/' })).rejects.toMatchObject({
      code: 'E_DNS',
      data: { reason: 'DNS_RESOLUTION_FAILED' },
    })
  })

  it('of redirects are checked too', async () => {
    const url = await serve((request, answer) =>
      request.url === '/metadata'
        ? answer.writeHead(302, { location: 'http://169.254.169.254/latest' }).end()
        : answer.writeHead(302, { location: '/metadata' }).end(),
    )
    const { call } = await open()
    await expect(call('fetch_url', { url })).rejects.toMatchObject({ code: 'E_REDIRECT_BLOCKED' })
    await expect(call('fetch_url', { url: 'http://169.254.169.254/' })).rejects.toMatchObject({
      code: 'E_SSRF_BLOCKED',
    })
    await expect(call('fetch_url', { url: 'http://168.63.129.16/' })).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
  })

  it.each(['true', '1', 'YES', 'on'])(
    'on this machine are allowed if the environment says %s, whatever the file says',
    async (value) => {
      const url = await html(ARTICLE)
      const fetch = { allow_private_network: false }
      const { call } = await open({ fetch }, { FETCH_URL_ALLOW_PRIVATE_NETWORK: value })
      expect(await call('fetch_url', { url })).toMatchObject({ engine: 'mcp_fetch' })
      const off = await open({ fetch: { allow_private_network: true } }, { FETCH_URL_ALLOW_PRIVATE_NETWORK: 'false' })
      await expect(off.call('fetch_url', { url })).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
    },
  )
})

describe('robots.txt', () => {
  const site = (robots: (answer: ServerResponse) => void) => {
    const asked: string[] = []
    const url = serve((request, answer) => {
      asked.push(`${request.method} ${request.url}`)
      if (request.url === '/robots.txt') return robots(answer)
      answer.setHeader('content-type', 'text/plain').end('read')
    })
    return url.then((at) => ({ url: at, asked }))
  }

  it('is respected if enabled, and read once', async () => {
    const { url, asked } = await site(
      (answer) => void answer.end('User-agent: tests\nDisallow: /private\n\nUser-agent: *\nDisallow: /'),
    )
    const { call } = await open({ fetch: { robots: 'obey' } })
    for (const action of ['fetch_url', 'extract']) {
      expect(await call(action, { url: `${url}/open` })).toMatchObject({ url: `${url}/open` })
      await expect(call(action, { url: `${url}/private/a` })).rejects.toMatchObject({
        code: 'E_DENIED_BY_POLICY',
        hint: 'Use another page; see modules.web.config.fetch.robots.',
      })
    }
    expect(asked).toEqual(['GET /robots.txt', 'GET /open', 'GET /open'])
    const other = await open({ fetch: { robots: 'obey' }, user_agent: 'somebody else' })
    await expect(other.call('fetch_url', { url: `${url}/open` })).rejects.toMatchObject({ code: 'E_DENIED_BY_POLICY' })
    expect(await (await open()).call('fetch_url', { url: `${url}/private/a` })).toMatchObject({ content: 'read' })
  })

  it('that is missing allows everything; a broken one allows nothing', async () => {
    const { call } = await open({ fetch: { robots: 'obey' } })
    const none = await site((answer) => void answer.writeHead(404).end())
    expect(await call('fetch_url', { url: none.url })).toMatchObject({ content: 'read' })
    const broken = await site((answer) => void answer.writeHead(503).end())
    await expect(call('fetch_url', { url: broken.url })).rejects.toMatchObject({ code: 'E_DENIED_BY_POLICY' })
    expect(broken.asked).toEqual(['GET /robots.txt'])
  })
})

describe('reading engines', () => {
  it.each([
    ['foo,crawl4ai,crawl4ai', 'crawl4ai'],
    ['', 'mcp_fetch'],
    [undefined, 'crawl4ai'],
    ['mcp_fetch,crawl4ai', 'mcp_fetch'],
    ['foo', 'mcp_fetch'],
  ])('are tried in the order %j, always including the built-in one [TOM-28]', async (order, first) => {
    const [url, crawl4ai] = [await html(ARTICLE), await crawl4aiApi()]
    const env = { ...(order !== undefined && { FETCH_URL_ENGINE_ORDER: order }), CRAWL4AI_BASE_URL: crawl4ai.url }
    const { call, warnings } = await open({}, env)
    expect(await call('fetch_url', { url })).toMatchObject({ engine: first })
    expect(warnings.flatMap(({ names }) => names ?? [])).toEqual(order?.includes('foo') ? ['foo'] : [])
  })

  it('fall back to the built-in one if a browser engine is unhealthy or unable [TOM-29]', async () => {
    const [url, crawl4ai] = [await html(ARTICLE), await crawl4aiApi()]
    const fetch = { crawl4ai_base_url: `${crawl4ai.url}/`, crawl4ai_token: 'token-of-the-tests' }
    const { call } = await open({ fetch, health_seconds: 0 })
    expect(await call('fetch_url', { url })).toMatchObject({
      engine: 'crawl4ai',
      title: 'Rendered',
      content: '# Rendered\n\nBy a browser.',
    })
    const paths = (asked: readonly Asked[]) => asked.map(({ method, path }) => `${method} ${path}`)
    expect(paths(crawl4ai.asked)).toEqual(['GET /health', 'POST /md'])
    expect(JSON.parse(crawl4ai.asked[1]?.body ?? '')).toEqual({ url: `${url}/`, f: 'fit', q: null, c: '0' })
    expect(crawl4ai.asked[1]?.headers.authorization).toBe('Bearer token-of-the-tests')
    crawl4ai.status = 503
    expect(await call('fetch_url', { url })).toMatchObject({ engine: 'mcp_fetch' })
    expect(paths(crawl4ai.asked.slice(2))).toEqual(['GET /health'])
    // The health of an engine is cached for a while.
    const patient = await open({ fetch })
    crawl4ai.status = 200
    for (let at = 0; at < 3; at++) await patient.call('fetch_url', { url: `${url}/${at}` })
    expect(paths(crawl4ai.asked.slice(3))).toEqual(['GET /health', 'POST /md', 'POST /md', 'POST /md'])
    // It does not return pages unchanged.
    expect(await call('fetch_url', { url, raw: true })).toMatchObject({ engine: 'mcp_fetch' })
  })

  it('fall back to the built-in one if a browser fails for a page', async () => {
    const url = await html(ARTICLE)
    const broken = await serve((request, answer) =>
      request.url === '/health' ? answer.end('{}') : answer.writeHead(500).end('{"detail":"broke"}'),
    )
    const { call, warnings } = await open({ fetch: { crawl4ai_base_url: broken } })
    expect(await call('fetch_url', { url })).toMatchObject({ engine: 'mcp_fetch', byline: 'Ada Lovelace' })
    expect(warnings).toMatchObject([{ message: 'a page could not be read', engine: 'crawl4ai' }])
  })

  it('are not used for a page that is too large or leads to a disallowed address', async () => {
    const crawl4ai = await crawl4aiApi()
    const { call } = await open({ fetch: { crawl4ai_base_url: crawl4ai.url } })
    const large = await serve((_, answer) => answer.writeHead(200, { 'content-length': '99999999' }).end())
    await expect(call('fetch_url', { url: large })).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
    const away = await serve((_, answer) => answer.writeHead(302, { location: 'http://169.254.169.254/' }).end())
    await expect(call('fetch_url', { url: away })).rejects.toMatchObject({ code: 'E_REDIRECT_BLOCKED' })
    expect(crawl4ai.asked.filter(({ path }) => path === '/md')).toEqual([])
  })
})

describe('the reader', () => {
  it('gives up on a page built to be slow, which is then read in another way', async () => {
    const reader = createReader(4_000)
    const slow = `<title>Slow</title><p>Words</p>${'<div>'.repeat(20_000)}deep`
    expect(await reader.read(slow, 'https://example.com/', ann)).toBeUndefined()
    expect(await reader.read(ARTICLE, 'https://example.com/', ann)).toMatchObject({ title: 'About cats | The Site' })
    await reader.close()
    expect(await readPage(slow, 'https://example.com/')).toMatchObject({
      title: 'Slow',
      text: expect.stringContaining('Words'),
    })
  })

  it('reads a large page in pieces, so that other work continues', async () => {
    for (const part of ['<', '<p>x</p>', '<ul><li>', '\n', '<a href="/a">q</a>', '&amp;', 'a\t', ' ']) {
      let [turns, over] = [0, false]
      const page = readPage(part.repeat(2_000_000 / part.length), 'https://example.com/').finally(() => {
        over = true
      })
      while (!over) {
        await new Promise((resolve) => setImmediate(resolve))
        turns++
      }
      expect((await page).title).toBe('')
      expect(turns, part).toBeGreaterThan(3)
    }
    expect((await readPage('<p>a</p>\n\n\n<p> b  c</p><br><br><br>d', 'https://example.com/')).text).toBe(
      'a\n\nb c\n\nd',
    )
    const long = await readPage(
      `<title>${'&lt; '.repeat(20_000)}</title>${'&#x1f600; \t '.repeat(20_000)}`,
      'https://e.com/',
    )
    expect(long.title).toBe(Array(20_000).fill('<').join(' '))
    expect(long.text).toBe(Array(20_000).fill('😀').join(' '))
    expect((await readPage(`a${' '.repeat(200_000)}b`, 'https://e.com/')).text).toBe('a b')
  })

  it('reads concurrent pages one by one, and leaves nothing behind', async () => {
    const reader = createReader()
    const pages = Array.from({ length: 8 }, (_, at) =>
      reader.read(`<title>${at}</title><p>${PARAGRAPH}`, 'https://example.com/', ann),
    )
    expect((await Promise.all(pages)).map((page) => page?.title)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7'])
    await reader.close()
  })
})

describe('extract', () => {
  it('returns text, links or metadata of a page', async () => {
    const url = await html(ARTICLE)
    const { call } = await open()
    expect(await call('extract', { url, mode: 'metadata' })).toEqual({
      url: `${url}/`,
      mode: 'metadata',
      metadata: {
        title: 'About cats | The Site',
        description: 'All one has to know.',
        author: 'Ada Lovelace',
        published: '2026-01-02T03:04:05Z',
      },
    })
    expect(await call('extract', { url, mode: 'links' })).toMatchObject({
      title: 'About cats | The Site',
      links: [
        { text: 'Home', url: `${url}/1` },
        { text: 'Shop', url: `${url}/2` },
        { text: 'more', url: `${url}/more?a=1&b=2` },
      ],
    })
    const { text } = (await call('extract', { url })) as { text: string }
    expect(text).toContain('All rights reserved')
    expect(text).not.toContain('alert')
    const long = await html(`<p>${'x'.repeat(49_999)}\u{1f408}`)
    expect(await call('extract', { url: long })).toMatchObject({ text: 'x'.repeat(49_999), truncated: true })
  })
})
