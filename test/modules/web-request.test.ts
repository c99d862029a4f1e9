import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { bodyOf, json, open, serve } from './web-servers.ts'

/** Echoes the request. */
const echo = (): Promise<string> =>
  serve(async (request, answer) =>
    json(answer, { method: request.method, url: request.url, headers: request.headers, body: await bodyOf(request) }),
  )

const said = (found: Record<string, unknown>): Record<string, Record<string, unknown>> =>
  JSON.parse(String(found['body'])) as Record<string, Record<string, unknown>>

const SECRET = 'the-secret-of-the-tests-0123456789'
const login = (url: string, more: Record<string, unknown> = {}) => ({
  url_fetch: {
    secrets: { enabled: true, allow_profiles: ['api', 'gone'] },
    auth_profiles: {
      api: { secret: SECRET, url_prefixes: [`${url}/v1/`], ...more },
      other: { secret: SECRET, url_prefixes: [url] },
    },
  },
})

describe('url_fetch', () => {
  it('returns the response as text, and another status than success as a failure with the response [MOR-15]', async () => {
    const { call } = await open()
    const url = await serve((request, answer) => {
      if (request.url === '/gone')
        return void answer.writeHead(404, { 'content-type': 'text/plain' }).end('nothing here')
      if (request.url === '/large')
        return void answer.setHeader('content-type', 'text/plain').end('x'.repeat(1024 * 1024))
      if (request.url === '/page')
        return void answer
          .setHeader('content-type', 'text/html')
          .end(
            `<title>A page</title><p>Words</p><script>no</script>${Array.from({ length: 60 }, (_, at) => `<a href="/${at}">L${at}</a> `).join('')}`,
          )
      answer.setHeader('content-type', 'text/plain').end(`${request.method} done`)
    })
    expect(await call('url_fetch', { url })).toEqual({
      url: `${url}/`,
      method: 'GET',
      status: 200,
      content_type: 'text/plain',
      truncated: false,
      bytes: 8,
      body: 'GET done',
    })
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      expect(await call('url_fetch', { url, method })).toMatchObject({ method, body: `${method} done` })
    await expect(call('url_fetch', { url: `${url}/gone` })).rejects.toMatchObject({
      message: 'non-2xx status: 404',
      hint: 'It says: nothing here',
      data: { status: 404, body: 'nothing here' },
    })
    const large = await call('url_fetch', { url: `${url}/large` })
    expect([large['truncated'], String(large['body']).length]).toEqual([true, 512 * 1024])
    expect(await call('url_fetch', { url: `${url}/large`, max_bytes: 5 })).toMatchObject({
      body: 'xxxxx',
      truncated: true,
    })
    const page = await call('url_fetch', { url: `${url}/page` })
    expect(page).toMatchObject({
      extracted: true,
      title: 'A page',
      links: expect.arrayContaining([{ text: 'L0', url: `${url}/0` }]),
    })
    expect(page['links']).toHaveLength(50)
    expect(page['body_text']).toMatch(/^Words\n+L0 L1/)
    await expect(call('url_fetch', { url: 'ftp://example.com/' })).rejects.toMatchObject({
      message: 'unsupported url scheme: ftp',
    })
    await expect(call('url_fetch', { url, method: 'TRACE' })).rejects.toThrow('unsupported method: TRACE')
    await expect(call('url_fetch', {})).rejects.toThrow('missing required param: url')
    const slow = await serve(() => undefined)
    await expect(call('url_fetch', { url: slow, timeout_seconds: 0.1 })).rejects.toMatchObject({ code: 'E_TIMEOUT' })
  })

  it('sends any body, with a default content type [MOR-16]', async () => {
    const { call, shown } = await open()
    const url = await echo()
    const sent = async (body: unknown, more: object = {}) => {
      const { headers, body: got } = said(await call('url_fetch', { url, method: 'POST', body, ...more }))
      return [headers?.['content-type'], got]
    }
    expect(await sent({ a: [1] })).toEqual(['application/json', '{"a":[1]}'])
    expect(await sent([1, 'x'])).toEqual(['application/json', '[1,"x"]'])
    expect(await sent(7)).toEqual(['application/json', '7'])
    expect(await sent(false)).toEqual(['application/json', 'false'])
    expect(await sent(null)).toEqual(['application/json', 'null'])
    expect(await sent('plain')).toEqual(['text/plain;charset=utf-8', 'plain'])
    expect(await sent({ a: 1 }, { headers: { Accept: 'x/y' } })).toEqual([undefined, '{"a":1}'])
    expect(await sent({ a: 1 }, { headers: { 'Content-Type': 'x/y' } })).toEqual(['x/y', '{"a":1}'])
    for (const method of ['GET', 'DELETE'])
      await expect(call('url_fetch', { url, method, body: { a: 1 } })).rejects.toMatchObject({
        message: `request body is only supported for POST/PUT/PATCH, not ${method}`,
      })
    for (const body of ['file_cache_dir/a.txt', { a: { b: ['file_state_dir/x'] } }])
      await expect(call('url_fetch', { url, method: 'POST', body })).rejects.toThrow(
        /^request body contains local file path "file_/,
      )
    const properties = shown('url_fetch')?.input.json['properties'] as Record<string, Record<string, unknown>>
    expect(properties['body']?.['type']).toEqual(['string', 'object', 'array', 'number', 'boolean', 'null'])
  })

  it('lets a model set a few headers, and none that impersonate others [MOR-17]', async () => {
    const { call } = await open()
    const url = await echo()
    const { headers } = said(
      await call('url_fetch', { url, headers: { Accept: 'text/x', 'User-Agent': 'mine', Range: 'bytes=0-9' } }),
    )
    expect(headers).toMatchObject({ accept: 'text/x', 'user-agent': 'mine', range: 'bytes=0-9' })
    const refused = (name: string, value: unknown = 'x') => call('url_fetch', { url, headers: { [name]: value } })
    const denied = [
      'authorization',
      'Cookie',
      'Host',
      'X-Api-Key',
      'api_key',
      'x-my-token',
      'Proxy-Authorization',
      'X-Forwarded-For',
      'Transfer-Encoding',
    ]
    for (const name of denied)
      await expect(refused(name)).rejects.toMatchObject({
        code: 'E_VALIDATION',
        message: `header "${name}" is not allowed`,
        hint: expect.stringContaining(
          'Allowed are Accept, Content-Type, User-Agent, If-None-Match, If-Modified-Since, Range',
        ),
      })
    await expect(refused('X-Foo')).rejects.toMatchObject({
      message: 'header "X-Foo" is not allowed (allowlist enforced)',
    })
    await expect(refused('Accept', 'a\r\nCookie: b')).rejects.toMatchObject({ code: 'E_VALIDATION' })
    await expect(refused('Accept', 7)).rejects.toThrow('the value of a header must be a string')
  })

  it('saves a response in the cache folder, complete or not at all [MOR-18]', async () => {
    const { call, root } = await open()
    const url = await serve((request, answer) => {
      if (request.url === '/gone') return void answer.writeHead(404).end('no')
      if (request.url === '/broken') {
        answer.writeHead(200, { 'content-length': '1000' }).write('half')
        return void setTimeout(() => answer.destroy(), 20)
      }
      answer.setHeader('content-type', 'application/pdf').end('%PDF-1.7')
    })
    const cache = join(root, 'cache/files')
    const sent: unknown[] = []
    const sendFile = (file: unknown) => void sent.push(file)
    expect(await call('url_fetch', { url, download_path: 'papers/a.pdf' }, { sendFile })).toEqual({
      url: `${url}/`,
      method: 'GET',
      status: 200,
      content_type: 'application/pdf',
      bytes: 8,
      path: 'file_cache_dir/papers/a.pdf',
      abs_path: join(cache, 'papers/a.pdf'),
      saved: true,
      note: 'saved to file_cache_dir',
    })
    expect(readFileSync(join(cache, 'papers/a.pdf'), 'utf8')).toBe('%PDF-1.7')
    expect(sent).toMatchObject([{ filename: 'a.pdf', fileUrl: `file://${join(cache, 'papers/a.pdf')}` }])
    await call('url_fetch', { url, download_path: 'file_cache_dir/b.pdf' })
    await expect(call('url_fetch', { url: `${url}/gone`, download_path: 'c' })).rejects.toMatchObject({
      message: 'non-2xx status: 404',
      data: { saved: false },
    })
    await expect(call('url_fetch', { url, download_path: 'd', max_bytes: 7 })).rejects.toMatchObject({
      message: expect.stringMatching(/^download truncated \(max_bytes=7\); /),
    })
    await expect(call('url_fetch', { url: `${url}/broken`, download_path: 'e' })).rejects.toMatchObject({
      code: 'E_BACKEND_UNAVAILABLE',
    })
    mkdirSync(join(root, 'outside'))
    symlinkSync(join(root, 'outside/x'), join(cache, 'link'))
    for (const path of ['../x', 'a/../../x', '/etc/x', 'link', 'file_cache_dir/../x'])
      await expect(call('url_fetch', { url, download_path: path }), path).rejects.toMatchObject({
        code: 'E_PATH_OUTSIDE_ROOT',
      })
    expect(readdirSync(cache).sort()).toEqual(['b.pdf', 'link', 'papers'])
    expect(readdirSync(join(root, 'outside'))).toEqual([])
  })

  it('reaches allowed addresses, and follows redirects within one origin only [MOR-19]', async () => {
    const other = await echo()
    const url = await serve((request, answer) => {
      const to = {
        '/here': '/there',
        '/away': other,
        '/hidden': '/private',
        '/1': '/2',
        '/2': '/3',
        '/3': '/4',
        '/4': '/5',
      }[request.url ?? '']
      if (to === undefined) return void answer.end('arrived')
      answer.writeHead(302, { location: to }).end()
    })
    const guarded = async (guard: Record<string, unknown>, fetch: Record<string, unknown> = {}) => {
      const { call } = await open({ url_fetch: { guard }, fetch })
      return (path: string) => call('url_fetch', { url: `${url}${path}` })
    }
    await expect((await guarded({ allowed_url_prefixes: [] }))('/')).rejects.toMatchObject({
      message: 'url_fetch is blocked by guard (no allowed_url_prefixes configured)',
    })
    await expect((await guarded({ allowed_url_prefixes: ['https://example.com'] }))('/')).rejects.toMatchObject({
      message: 'url is not allowed by guard',
    })
    await expect((await guarded({ allowed_url_prefixes: [url.slice(0, -1)] }))('/')).rejects.toMatchObject({
      message: 'url is not allowed by guard',
    })
    await expect((await guarded({}, { allow_private_network: false }))('/')).rejects.toMatchObject({
      message: 'private ip/localhost is not allowed by guard',
      hint: expect.stringContaining('FETCH_URL_ALLOW_PRIVATE_NETWORK=false'),
    })
    await expect((await guarded({}))('/here')).rejects.toMatchObject({
      message: 'non-2xx status: 302',
      data: { location: '/there' },
    })
    const follows = await guarded({ follow_redirects: true, allowed_url_prefixes: [url, other] })
    expect(await follows('/here')).toMatchObject({ url: `${url}/there`, body: 'arrived' })
    await expect(follows('/away')).rejects.toMatchObject({ code: 'E_REDIRECT_BLOCKED' })
    await expect(follows('/1')).rejects.toMatchObject({ code: 'E_REDIRECT_BLOCKED' })
    expect(await follows('/2')).toMatchObject({ url: `${url}/5` })
    const narrow = await guarded({ follow_redirects: true, allowed_url_prefixes: [`${url}/h`] })
    await expect(narrow('/hidden')).rejects.toMatchObject({ message: 'url is not allowed by guard' })
  })
})

describe('a login', () => {
  it('is sent only to its addresses, and never shown [MOR-20]', async () => {
    const seen: unknown[] = []
    const other = await serve((request, answer) => {
      seen.push(request.headers.authorization)
      answer.end('other')
    })
    const url = await serve((request, answer) => {
      seen.push(request.headers.authorization)
      if (request.url === '/v1/away') return void answer.writeHead(302, { location: other }).end()
      if (request.url === '/v1/down') return void answer.writeHead(500).end(`no ${request.headers.authorization}`)
      answer.setHeader('content-type', 'text/plain').end(`got ${request.headers.authorization} ${btoa(SECRET)}`)
    })
    const { call, warnings } = await open(login(url, { follow_redirects: true, methods: ['GET', 'POST'] }))
    const outputs: unknown[] = []
    const tried = async (input: object) => {
      const out = await call('url_fetch', { auth_profile: 'api', ...input }).catch((error: Error) => ({
        ...error,
        message: error.message,
      }))
      outputs.push(out)
      return out as Record<string, unknown>
    }
    expect(await tried({ url: `${url}/v1/me` })).toMatchObject({
      status: 200,
      body: 'got Bearer [redacted] [redacted]',
    })
    expect(await tried({ url: `${url}/v1/down` })).toMatchObject({ message: 'non-2xx status: 500' })
    expect(await tried({ url: `${url}/v1/away` })).toMatchObject({ code: 'E_REDIRECT_BLOCKED' })
    expect(await tried({ url: `${url}/v1/file`, download_path: 'f' })).toMatchObject({ code: 'E_SECRET_BLOCKED' })
    expect(seen).toEqual(Array(4).fill(`Bearer ${SECRET}`))
    for (const [input, message] of [
      [{ url: `${url}/v2/` }, 'auth_profile "api" is not for this address'],
      [{ url: `${url}/v1/`, method: 'DELETE' }, 'auth_profile "api" is not for the method DELETE'],
      [{ url, auth_profile: 'other' }, 'auth_profile "other" is not allowed (fail-closed)'],
      [{ url, auth_profile: 'gone' }, 'auth_profile not found: "gone"'],
      [{ url: `${url}/v1/`, headers: { Accept: 'x' } }, 'headers are not allowed when using auth_profile "api"'],
    ] as const)
      expect(await tried(input)).toMatchObject({ message })
    const off = await open()
    await expect(off.call('url_fetch', { url, auth_profile: 'api' })).rejects.toMatchObject({
      message: 'auth_profile is not enabled (set secrets.enabled=true)',
    })
    expect(seen).toHaveLength(4)
    const everything = JSON.stringify([outputs, warnings])
    for (const spelling of [SECRET, btoa(SECRET)]) expect(everything).not.toContain(spelling)
  })

  it('is sent as its profile says, with other headers only if allowed', async () => {
    const url = await echo()
    const header = async (more: Record<string, unknown>, input: object = {}) => {
      const { call } = await open(login(url, more))
      return said(await call('url_fetch', { url: `${url}/v1/`, auth_profile: 'api', ...input }))['headers']
    }
    expect(await header({ format: 'raw', header: 'X-Key' })).toMatchObject({ 'x-key': '[redacted]' })
    expect(await header({ format: 'basic' })).toMatchObject({ authorization: 'Basic [redacted]' })
    expect(await header({ allow_headers: ['X-Trace'] }, { headers: { 'X-Trace': '7' } })).toMatchObject({
      'x-trace': '7',
    })
    await expect(
      header({ header: 'Accept', allow_headers: ['X'] }, { headers: { accept: 'x' } }),
    ).rejects.toMatchObject({
      message: 'header "Accept" must not be provided when using auth_profile "api"',
    })
  })

  it('comes from the environment, and appears in no answer and no log', async () => {
    const url = await serve((request, answer) => void answer.writeHead(500).end(`${request.headers.authorization}`))
    const dir = { auth_profiles: { api: { secret: '{{env.TEST_API_TOKEN}}', url_prefixes: [url] } } }
    const settings = {
      exposure: { mode: 'direct', primitives: false },
      modules: {
        web: {
          config: {
            access: 'write',
            fetch: { allow_private_network: true },
            url_fetch: { secrets: { enabled: true, allow_profiles: ['api'] }, ...dir },
          },
        },
      },
    }
    const { app, logged } = await startApp(settings, undefined, {
      level: 'debug',
      env: { PATH: process.env.PATH, TEST_API_TOKEN: SECRET },
    })
    const client = await connectTo(app)
    const result = await client.callTool({ name: 'web__url_fetch', arguments: { url, auth_profile: 'api' } })
    expect(answerOf(result)).toMatchObject({ data: { body: 'Bearer [redacted]' } })
    expect(JSON.stringify([result, logged])).not.toContain(SECRET)
  })
})

describe('apparent secrets', () => {
  it.each([
    ['-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----', '[redacted]'],
    [
      'jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U',
      'jwt [redacted]',
    ],
    ['Authorization: Bearer abcdef0123456789', 'Authorization: Bearer [redacted]'],
    ['api_key=sk_live_0123456789 and user=someone-important', 'api_key=[redacted] and user=someone-important'],
    ['see https://example.com/cb?token=abcdef0123456789&page=2', 'see https://example.com/cb?token=[redacted]&page=2'],
  ])('are masked in responses: %j [MOR-21]', async (before, after) => {
    const { call } = await open()
    const url = await serve((_, answer) => void answer.setHeader('content-type', 'text/plain').end(before))
    expect(await call('url_fetch', { url })).toMatchObject({ body: after })
    const masked = await call('url_fetch', { url: `${url}/?access_token=abcdef0123456789&page=2` })
    expect(masked['url']).toBe(`${url}/?access_token=%5Bredacted%5D&page=2`)
  })
})
