import { readdirSync, readFileSync } from 'node:fs'
import { symlink } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import http from '../../modules/http/index.ts'
import { localCaller } from '../../src/core/caller.ts'
import { isPegboardError } from '../../src/core/errors.ts'
import { defaultProfile } from '../../src/core/profile.ts'
import { answerOf, startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { type StartedModule, startModule } from './start-module.ts'
import { serve } from './web-servers.ts'

keepsTheContract(http)

const _bundledDirs = [fileURLToPath(new URL('../../modules', import.meta.url))]

interface Rig extends StartedModule {
  call(action: string, input?: unknown): Promise<Record<string, unknown>>
}

/**
 * The module over a folder of files; all of it is enabled and may reach this machine, unless `config` says otherwise.
 */
async function open(config: Record<string, unknown> = {}, files: Readonly<Record<string, string>> = {}): Promise<Rig> {
  const found = await startModule('http', { access: 'write', allow_private_hosts: true, ...config }, files)
  return {
    ...found,
    call: async (action, input) => (await found.run(`http.${action}`, input)) as Record<string, unknown>,
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = ''
  for await (const piece of request.setEncoding('latin1')) body += piece
  return body
}

/** How a download fails, immediately or later. */
async function failureOf({ call }: Rig, input: object): Promise<{ code: unknown; error: string }> {
  try {
    const { download_id } = await call('download', input)
    const { status, error } = await call('download_wait', { download_id })
    expect(status).toBe('failed')
    const { code, message } = error as { code: string; message: string }
    return { code, error: message }
  } catch (failed) {
    if (!isPegboardError(failed)) throw failed
    const { code, message } = failed
    return { code, error: message }
  }
}

/** Echoes the request. */
const echo = (): Promise<string> =>
  serve(async (request, answer) => {
    const { method, url, headers } = request
    answer.setHeader('content-type', 'application/json')
    answer.setHeader('set-cookie', 'session=secret')
    answer.end(JSON.stringify({ method, url, headers, body: await bodyOf(request) }))
  })

describe('requests', () => {
  it('send what they are given and report the response, whatever its status', async () => {
    const { call } = await open({ default_headers: { 'X-Team': 'blue' }, user_agent: 'tests' })
    const url = await echo()
    const got = await call('get', {
      url: `${url}/a?b=1`,
      query_params: { c: 'd e', n: 2 },
      headers: { Accept: 'text/x' },
    })
    expect(got).toMatchObject({
      status: 200,
      ok: true,
      url: `${url}/a?b=1&c=d+e&n=2`,
      content_type: 'application/json',
      json: {
        method: 'GET',
        url: '/a?b=1&c=d+e&n=2',
        headers: { accept: 'text/x', 'x-team': 'blue', 'user-agent': 'tests' },
      },
      truncated: false,
    })
    expect(JSON.stringify(got['headers'])).not.toContain('secret')
    for (const [action, method] of Object.entries({ post: 'POST', put: 'PUT', patch: 'PATCH', delete: 'DELETE' }))
      expect(await call(action, { url, json: { a: [1] } })).toMatchObject({
        json: { method, body: '{"a":[1]}', headers: { 'content-type': 'application/json' } },
      })
    expect(await call('request', { method: 'POST', url, body: 'plain' })).toMatchObject({ json: { body: 'plain' } })
    expect(await call('head', { url })).toMatchObject({ status: 200, body: '', bytes: 0 })
    expect(await call('options', { url })).toMatchObject({ json: { method: 'OPTIONS' } })
    const gone = await serve((_, answer) => answer.writeHead(404, { 'content-type': 'text/plain' }).end('nothing'))
    expect(await call('get', { url: gone })).toMatchObject({ status: 404, ok: false, body: 'nothing' })
    await expect(call('request', { method: 'GET', url, body: 'x' })).rejects.toMatchObject({ code: 'E_VALIDATION' })
    await expect(call('post', { url, body: 'x', json: 1 })).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })

  it('show text up to the limit, and no binary content', async () => {
    const { call } = await open({ max_text: 10, max_response: 1000 })
    const url = await serve((request, answer) => {
      if (request.url === '/long') answer.end('x'.repeat(500))
      else if (request.url === '/huge') answer.end('x'.repeat(5000))
      else if (request.url === '/latin')
        answer.setHeader('content-type', 'text/plain; charset=latin1').end(Buffer.from([0xe9]))
      else if (request.url === '/cat') answer.end('123456789\u{1f408}')
      else answer.end(Buffer.from([1, 0, 2]))
    })
    expect(await call('get', { url: `${url}/long` })).toMatchObject({
      body: 'x'.repeat(10),
      bytes: 500,
      truncated: true,
    })
    expect(await call('get', { url: `${url}/latin` })).toMatchObject({ body: 'é' })
    expect(await call('get', { url: `${url}/cat` })).toMatchObject({ body: '123456789', truncated: true })
    const binary = await call('get', { url: `${url}/binary` })
    expect(binary).toMatchObject({ binary: true, bytes: 3 })
    expect(binary).not.toHaveProperty('body')
    await expect(call('get', { url: `${url}/huge` })).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
      hint: 'modules.http.config.max_response decides.',
    })
  })

  it('keeps all digits of numbers in JSON, as text where JavaScript cannot represent them', async () => {
    const { call } = await open()
    const url = await serve((_, answer) => {
      answer.setHeader('content-type', 'application/json').end('{"id":9007199254740993,"list":[1e400,1],"n":1.5}')
    })
    const json = { id: '9007199254740993', list: ['1e400', 1], n: 1.5 }
    for (const action of ['get', 'json_api']) expect(await call(action, { url })).toMatchObject({ json })
  })

  it('call a JSON API, and fail with the beginning of a response that is not JSON', async () => {
    const { call } = await open()
    const url = await echo()
    expect(await call('json_api', { url, method: 'POST', data: { a: 1 } })).toMatchObject({
      status: 200,
      json: { method: 'POST', body: '{"a":1}', headers: { accept: 'application/json' } },
    })
    const html = await serve((_, answer) => answer.end(`<html>${'y'.repeat(500)}`))
    await expect(call('json_api', { url: html })).rejects.toMatchObject({
      code: 'E_TOOL_FAILED',
      message: `The response is not JSON: <html>${'y'.repeat(194)}`,
    })
    const broken = await serve((_, answer) => answer.writeHead(500).end('{"why":"no"}'))
    await expect(call('json_api', { url: broken })).rejects.toMatchObject({
      message: 'The API answered with status 500: {"why":"no"}',
    })
  })

  it('submit forms', async () => {
    const { call } = await open()
    expect(await call('submit_form', { url: await echo(), fields: { name: 'Ada & Co', yes: true } })).toMatchObject({
      json: {
        method: 'POST',
        body: 'name=Ada+%26+Co&yes=true',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      },
    })
  })

  it('return a page as text, with its links', async () => {
    const { call } = await open()
    const url = await serve((_, answer) =>
      answer
        .setHeader('content-type', 'text/html')
        .end(
          '<!doctype html><title>A &amp; B</title><script>evil()</script><style>x{}</style><!-- hidden -->' +
            '<h1>Head</h1><p>One <b>two</b>&nbsp;&#233; 1 < 2</p><a href="/next?x=1&amp;y=2">Next</a> <a href="javascript:x">no</a>' +
            '<noscript>off</noscript><script>unclosed',
        ),
    )
    expect(await call('fetch_page', { url, extract_links: true })).toEqual({
      status: 200,
      ok: true,
      url: `${url}/`,
      title: 'A & B',
      text: 'Head\n\nOne two é 1 < 2\nNext no',
      truncated: false,
      links: [{ text: 'Next', url: `${url}/next?x=1&y=2` }],
    })
    expect(await call('fetch_page', { url, max_text_length: 4 })).toMatchObject({
      text: 'Head',
      truncated: true,
      next_start_index: 4,
    })
    expect(await call('fetch_page', { url, start_index: 4, max_text_length: 5 })).toMatchObject({ text: '\n\nOne' })
    const cat = await serve((_, answer) =>
      answer.setHeader('content-type', 'text/plain; charset=utf-8').end('a\u{1f408}b'),
    )
    expect(await call('fetch_page', { url: cat, max_text_length: 2 })).toMatchObject({ text: 'a', next_start_index: 1 })
    expect(await call('fetch_page', { url: cat, max_text_length: 1, start_index: 1 })).toMatchObject({
      text: '\u{1f408}',
      next_start_index: 3,
    })
    const hostile = await serve((_, answer) =>
      answer.setHeader('content-type', 'text/html').end('<a href=x>'.repeat(100_000) + '<!'.repeat(100_000)),
    )
    expect(await call('fetch_page', { url: hostile })).toMatchObject({ text: '' })
  })
})

describe('allowed hosts', () => {
  it('limit requests and redirects if configured', async () => {
    const url = await serve((_, answer) => answer.writeHead(302, { location: 'http://localhost:1/' }).end())
    const { call } = await open({ allowed_hosts: ['127.0.0.1', '*.example.com'] })
    await expect(call('get', { url: 'http://localhost:1/' })).rejects.toMatchObject({
      code: 'E_SSRF_BLOCKED',
      hint: 'See modules.http.config.allowed_hosts.',
    })
    await expect(call('get', { url })).rejects.toMatchObject({ code: 'E_REDIRECT_BLOCKED' })
    expect(await call('get', { url, follow_redirects: false })).toMatchObject({ status: 302 })
    await expect(call('get', { url: 'file:///etc/passwd' })).rejects.toMatchObject({ code: 'E_VALIDATION' })
    const blocked = await open({ blocked_hosts: ['127.0.0.1'] })
    await expect(blocked.call('get', { url })).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
  })
})

describe('headers', () => {
  it('of a login are set by the operator, go to its hosts only, and not to another origin', async () => {
    const url = await echo()
    const away = await serve((_, answer) => answer.writeHead(302, { location: url }).end())
    const hosts = [new URL(url).host, new URL(away).host]
    const credentials = {
      hub: { type: 'bearer', token: 'sesame', hosts },
      old: { type: 'basic', username: 'ada', password: 'sesame', hosts },
      key: { type: 'api_key', token: 'sesame', header: 'X-Key', hosts },
      far: { type: 'bearer', token: 'sesame', hosts: ['api.example.com'] },
    }
    const { call } = await open({ credentials })
    const sent = async (auth: string) => ((await call('get', { url, auth }))['json'] as { headers: object }).headers
    expect(await sent('hub')).toMatchObject({ authorization: 'Bearer sesame' })
    expect(await sent('old')).toMatchObject({ authorization: 'Basic YWRhOnNlc2FtZQ==' })
    expect(await sent('key')).toMatchObject({ 'x-key': 'sesame' })
    await expect(call('get', { url, auth: 'far' })).rejects.toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      hint: expect.stringContaining('modules.http.config.credentials.far.hosts.'),
    })
    await expect(call('get', { url, auth: 'none' })).rejects.toMatchObject({
      message: 'There are no credentials called "none"; there are hub, old, key, far.',
    })
    expect(JSON.stringify(await call('get', { url: away, auth: 'key' }))).not.toContain('sesame')
  })
})

describe('uploads', () => {
  it('send a workspace file as a form, and no other', async () => {
    const { call, root } = await open(
      { max_upload: 100, denied_paths: ['private'] },
      { 'in/a "b".txt': 'content', 'big.txt': 'x'.repeat(101), '.env': 'K=1', 'private/x': 'x' },
    )
    const url = await echo()
    const { json, sent } = await call('upload_file', { url, path: 'in/a "b".txt', fields: { title: 'T' } })
    const { body, headers } = json as { body: string; headers: Record<string, string> }
    const form = await new Response(Buffer.from(body, 'latin1'), {
      headers: { 'content-type': headers['content-type'] ?? '' },
    }).formData()
    const file = form.get('file') as File
    expect([sent, form.get('title'), file.name, await file.text()]).toEqual([7, 'T', 'a "b".txt', 'content'])
    expect(headers['content-length']).toBe(String(body.length))
    await expect(call('upload_file', { url, path: 'big.txt' })).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
    await symlink('/etc/hostname', join(root, 'link'))
    for (const path of ['../x', '/etc/passwd', 'link'])
      await expect(call('upload_file', { url, path }), path).rejects.toMatchObject({ code: 'E_PATH_OUTSIDE_ROOT' })
    for (const [path, why] of [
      ['.env', ': it is always refused'],
      ['config.yaml', ': it is always refused'],
      ['private/x', ' (modules.http.config.denied_paths)'],
    ])
      await expect(call('upload_file', { url, path }), path).rejects.toMatchObject({
        code: 'E_PATH_DENIED',
        message: `'${path}' is protected${why}.`,
      })
  })
})

describe('downloads', () => {
  /** Sends half of a file, and the rest after its release. */
  async function slow() {
    let release = (): void => undefined
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const url = await serve(async (_, answer) => {
      answer.writeHead(200, { 'content-length': 8 }).write('half')
      await released
      answer.end('rest')
    })
    return { url, release }
  }
  const files = (root: string): string[] =>
    readdirSync(root)
      .filter((name) => name !== 'modules')
      .sort()

  it('answer at once, report progress, and arrive complete [DIG-93]', async () => {
    const { call, root, run } = await open()
    const { url, release } = await slow()
    const begun = await call('download', { url, destination: 'out/a.bin' })
    expect(begun).toMatchObject({ status: 'running', path: 'out/a.bin' })
    const { download_id } = begun
    const status = () => call('download_status', { download_id })
    await expect.poll(status).toMatchObject({ status: 'running', bytes: 4, total: 8 })
    expect(await call('download_wait', { download_id, timeout: 1 })).toMatchObject({ status: 'running' })
    const told: unknown[] = []
    const waiting = run('http.download_wait', { download_id }, { progress: (...given) => told.push(given) })
    release()
    expect(await waiting).toMatchObject({ status: 'completed', bytes: 8, total: 8, resumed: 0 })
    expect(told.at(0)).toEqual([4, 8])
    expect(told.at(-1)).toEqual([8, 8])
    expect(readFileSync(join(root, 'out/a.bin'), 'utf8')).toBe('halfrest')
    expect(readdirSync(join(root, 'out'))).toEqual(['a.bin'])
    expect(await call('download_list')).toMatchObject({ downloads: [{ download_id, status: 'completed' }] })
  })

  it('leave nothing behind when cancelled [DIG-93]', async () => {
    const { call, root } = await open()
    const { url } = await slow()
    const { download_id } = await call('download', { url, destination: 'a.bin' })
    await expect.poll(() => files(root)).toHaveLength(1)
    expect(await call('download_cancel', { download_id })).toMatchObject({ status: 'cancelled' })
    expect(files(root)).toEqual([])
    expect(await call('download_cancel', { download_id })).toMatchObject({ status: 'cancelled' })
  })

  it('leave nothing behind when interrupted, and never leave the workspace', async () => {
    const rig = await open({}, { 'there.txt': 'old' })
    const { call, root } = rig
    const cut = await serve((_, answer) => {
      answer.writeHead(200, { 'content-length': 8 }).write('half')
      setTimeout(() => answer.destroy(), 20)
    })
    expect(await failureOf(rig, { url: cut, destination: 'cut.bin' })).toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
    await symlink('/tmp', join(root, 'tmp'))
    const url = await serve((_, answer) => answer.end('new'))
    for (const destination of ['../../x', '/etc/x', 'tmp/x'])
      await expect(call('download', { url, destination }), destination).rejects.toMatchObject({
        code: 'E_PATH_OUTSIDE_ROOT',
      })
    await expect(call('download', { url, destination: 'modules/evil.ts' })).rejects.toMatchObject({
      code: 'E_PATH_DENIED',
    })
    await expect(call('download', { url, destination: 'there.txt' })).rejects.toThrow("'there.txt' exists already.")
    expect(files(root)).toEqual(['there.txt', 'tmp'])
    expect(readFileSync(join(root, 'there.txt'), 'utf8')).toBe('old')
    const replacing = await call('download', { url, destination: 'there.txt', overwrite: true })
    expect(await call('download_wait', { download_id: replacing['download_id'] })).toMatchObject({
      status: 'completed',
    })
    expect(readFileSync(join(root, 'there.txt'), 'utf8')).toBe('new')
  })

  it('resume after an interruption while the file is unchanged', async () => {
    const asked: unknown[] = []
    let etag = '"one"'
    const url = await serve((request, answer) => {
      const { range, 'if-range': condition } = request.headers
      asked.push(range)
      if (range && condition === etag)
        return void answer.writeHead(206, { 'content-range': 'bytes 4-7/8', etag }).end('rest')
      answer.writeHead(200, { 'content-length': 8, etag }).write('half')
      if (request.url === '/changed') etag = '"two"'
      setTimeout(() => answer.destroy(), 20)
    })
    const rig = await open()
    const { call, root } = rig
    const { download_id } = await call('download', { url, destination: 'a.bin' })
    expect(await call('download_wait', { download_id })).toMatchObject({ status: 'completed', bytes: 8, resumed: 1 })
    expect(readFileSync(join(root, 'a.bin'), 'utf8')).toBe('halfrest')
    expect(asked).toEqual([undefined, 'bytes=4-'])
    expect(await failureOf(rig, { url: `${url}/changed`, destination: 'b.bin' })).toMatchObject({
      error: expect.stringContaining('The file changed'),
    })
    await expect.poll(() => files(root)).toEqual(['a.bin'])
  })

  it('that fail later report the reason in a result', async () => {
    const { call } = await open({ max_download: 10 })
    const asked: ServerResponse[] = []
    const url = await serve((_, answer) => {
      answer.write('half')
      asked.push(answer)
    })
    const { download_id } = await call('download', { url, destination: 'a' })
    await expect.poll(() => asked.length).toBe(1)
    asked[0]?.end('x'.repeat(20))
    expect(await call('download_wait', { download_id })).toMatchObject({
      status: 'failed',
      error: { code: 'E_TOO_LARGE', message: expect.stringContaining('larger than 10 bytes') },
    })
    expect(await call('download_status', { download_id })).toMatchObject({ status: 'failed' })
    expect(await call('download_list')).toMatchObject({ downloads: [{ status: 'failed' }] })
  })

  it('accept only allowed addresses, sizes and concurrency', async () => {
    const rig = await open({ max_download: 10, max_downloads: 1 })
    const { call, root } = rig
    const url = await serve((request, answer) => {
      if (request.url === '/none') answer.writeHead(404).end('none')
      else if (request.url === '/said') answer.writeHead(200, { 'content-length': 11 }).end('x'.repeat(11))
      else answer.write('x'.repeat(6), () => answer.end('x'.repeat(6)))
    })
    expect(await failureOf(rig, { url: `${url}/none`, destination: 'a' })).toMatchObject({
      error: expect.stringContaining('status 404; nothing was saved'),
    })
    // A download holds its slot a moment longer than a caller waits for it.
    for (const path of ['/said', '/unsaid'])
      await expect
        .poll(() => failureOf(rig, { url: url + path, destination: 'a' }), { message: path })
        .toMatchObject({ code: 'E_TOO_LARGE' })
    await expect.poll(() => files(root)).toEqual([])
    const { url: open_ } = await slow()
    await expect.poll(() => call('download', { url: open_, destination: 'b' }).catch(() => undefined)).toBeDefined()
    await expect(call('download', { url: open_, destination: 'c' })).rejects.toMatchObject({ code: 'E_OVERLOADED' })
  })

  it('are visible to their owner only, and end with the module', async () => {
    const { call, root, run, loader } = await open()
    const { url } = await slow()
    const { download_id } = await call('download', { url, destination: 'a.bin' })
    const others = { caller: { ...localCaller, principal: 'bob' } }
    await expect(run('http.download_cancel', { download_id }, others)).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    expect(await run('http.download_list', {}, others)).toEqual({ downloads: [] })
    await loader.stop()
    expect(files(root)).toEqual([])
  })
})

describe('its tools', () => {
  it('exist as far as the operator allows, and name the setting', async () => {
    const shown = async (config: object) => {
      const { catalog } = await open(config as Record<string, unknown>)
      return [...catalog.snapshot().byId.values()]
        .filter((tool) => tool.module === 'http' && tool.available(localCaller, defaultProfile) === true)
        .map((tool) => tool.id.slice(5))
        .sort()
    }
    expect(await shown({ access: 'none' })).toEqual([])
    expect(await shown({ access: 'read' })).toEqual(['fetch_page', 'get', 'head', 'options'])
    expect(await shown({ access: 'write' })).toHaveLength(17)
    const { tool } = await open({ access: 'none' })
    expect(tool('http.get').available(localCaller, defaultProfile)).toBe(
      'set modules.http.config.access to "read" or "write"',
    )
  })

  it("work through the whole server, and accept other tools' field names", async () => {
    const url = await serve((_, answer) => answer.setHeader('content-type', 'application/json').end('{"api_key":"k"}'))
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      modules: { http: { config: { access: 'read', allow_private_hosts: true } } },
    })
    const client = await connectTo(app)
    const result = await client.callTool({ name: 'http__get', arguments: { url } })
    expect(answerOf(result)).toMatchObject({ status: 200, json: { api_key: 'k' } })
  })
})
