import { mkdirSync, readdirSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { serve } from '../modules/web-servers.ts'
import { PNG } from '../picture-servers.ts'
import { startAppWithClient } from './app-with-client.ts'

const KEY = 'sk-key-of-a-test-0123456789'

/** The module with a backend that answers like this. */
async function open(config: object, more: object = {}) {
  const dir = temporaryFolder()
  const cache = join(dir, 'cache')
  mkdirSync(join(cache, 'private'), { recursive: true })
  const all = await startAppWithClient({ media: { config: { file_cache_dir: cache, ...config, ...more } } }, { dir })
  return { ...all, cache }
}
const changing = { workflow_supports: { img2img: true } }
const custom = (base_url: string) => ({ image: { type: 'custom', base_url, api_key: KEY, ...changing } })
const openai = (url: string) => ({ image: { type: 'openai', base_url: `${url}/v1`, api_key: KEY, ...changing } })

/** Counts connections. */
async function canary(): Promise<{ readonly hits: string[]; readonly url: string }> {
  const hits: string[] = []
  const url = await serve((request, answer) => {
    hits.push(String(request.url))
    answer.end(PNG)
  })
  return { hits, url }
}

test('Pegboard reads no picture from denied paths or other places', async () => {
  const { call, fails, cache, dir } = await open(custom('http://127.0.0.1:9'), {
    denied_paths: ['private', '**/*.key.png'],
  })
  for (const name of ['a.png', 'private/a.png', 'x.key.png', '.env', '../outside.png'])
    writeFileSync(join(cache, name), PNG)
  symlinkSync(join(dir, 'outside.png'), join(cache, 'link.png'))
  for (const [path, code] of [
    ['private/a.png', 'E_PATH_DENIED'],
    ['file_cache_dir/private/a.png', 'E_PATH_DENIED'],
    ['./private/../private/a.png', 'E_PATH_DENIED'],
    ['x.key.png', 'E_PATH_DENIED'],
    ['.env', 'E_PATH_DENIED'],
    ['../outside.png', 'E_PATH_OUTSIDE_ROOT'],
    ['link.png', 'E_PATH_OUTSIDE_ROOT'],
    ['/etc/passwd', 'E_PATH_OUTSIDE_ROOT'],
  ] as const)
    expect(await fails('media.add_media', { path }), path).toMatchObject({ code })
  expect(await call('media.add_media', { path: 'a.png' })).toMatchObject({ media_id: 'media_1', bytes: PNG.length })
})

test('a picture address leads to no private network, directly or by a redirect', async () => {
  const { hits, url } = await canary()
  const { fails } = await open(custom('http://127.0.0.1:9'))
  for (const address of [`${url}/a.png`, url.replace('127.0.0.1', 'localhost'), url.replace('127.0.0.1', '[::1]')])
    expect(await fails('media.add_media', { url: address })).toMatchObject({ code: 'E_SSRF_BLOCKED' })
  for (const address of ['file:///etc/passwd', 'data:image/png;base64,AAAA', 'ftp://127.0.0.1/a.png', 'x'])
    expect(await fails('media.add_media', { url: address })).toMatchObject({ code: 'E_VALIDATION' })
  expect(hits).toEqual([])
})

const MIB = 1024 * 1024
const say =
  (status: number, headers: Record<string, string>, body: string | Buffer = ''): RequestListener =>
  (_, answer) =>
    answer.writeHead(status, headers).end(body)
const JSON_TYPE = { 'content-type': 'application/json' }

test('a backend response that is not a picture creates no file, and its error contains no key', async () => {
  const { hits, url } = await canary()
  const { port } = new URL(url)
  const b64 = (text: string | Buffer) => JSON.stringify({ data: [{ b64_json: Buffer.from(text).toString('base64') }] })
  const address = (to: unknown) => JSON.stringify({ data: [{ url: to }] })
  for (const [what, listener] of [
    ['a redirect', say(302, { location: `http://127.0.0.1:${port}/redirected` })],
    ['the same again elsewhere', say(307, { location: `http://127.0.0.1:${port}/again` })],
    ['a page', say(200, { 'content-type': 'text/html' }, '<html>')],
    ['nothing', say(200, {})],
    ['null', say(200, JSON_TYPE, 'null')],
    ['a list', say(200, JSON_TYPE, '[]')],
    ['no data', say(200, JSON_TYPE, '{"data":{}}')],
    ['a prototype', say(200, JSON_TYPE, '{"__proto__":{"data":[{"b64_json":"AAAA"}]}}')],
    ['no picture', say(200, JSON_TYPE, b64('#!/bin/sh\necho'))],
    ['a picture that is a page', say(200, JSON_TYPE, b64('<svg xmlns="http://www.w3.org/2000/svg" onload="x"/>'))],
    [
      'what only says so',
      say(
        200,
        { 'content-type': 'image/png', 'content-disposition': 'attachment; filename="../../x.sh"' },
        '#!/bin/sh',
      ),
    ],
    ['a private address', say(200, JSON_TYPE, address(`http://localhost:${port}/url`))],
    ['a file', say(200, JSON_TYPE, address('file:///etc/passwd'))],
    ['metadata', say(200, JSON_TYPE, address('http://169.254.169.254/latest'))],
    ['a number', say(200, JSON_TYPE, address(7))],
    ['the key', say(401, JSON_TYPE, JSON.stringify({ error: { message: `bad key ${KEY}` } }))],
    ['80 MiB', say(200, { 'content-type': 'image/png' }, Buffer.concat([PNG, Buffer.alloc(80 * MIB)]))],
  ] as const) {
    const backend = await serve(listener)
    for (const config of [custom(backend), openai(backend)]) {
      const rig = await open(config)
      const refusal = await rig.fails('media.generate_image', { prompt: 'a cat' })
      expect(refusal.code, what).not.toBe('E_INTERNAL')
      expect(`${refusal.answerText} ${rig.logged.join()}`, what).not.toContain(KEY)
      const files = readdirSync(rig.cache, { recursive: true, withFileTypes: true }).filter(
        (entry) => !entry.isDirectory(),
      )
      expect(
        files.map(({ name }) => name),
        what,
      ).toEqual([])
    }
  }
  expect(hits).toEqual([])
}, 120_000)

test('a stored picture that another program made huge is not read completely', async () => {
  const backend = await serve(say(200, { 'content-type': 'image/png' }, PNG))
  const { call, fails, cache } = await open(custom(backend))
  writeFileSync(join(cache, 'a.png'), PNG)
  const { media_id, path } = await call('media.add_media', { path: 'a.png' })
  const file = join(cache, path.replace('file_cache_dir/', ''))
  truncateSync(file, 1_500 * MIB)
  const before = process.memoryUsage().rss
  expect(await fails('media.generate_image', { prompt: 'x', media_id })).toMatchObject({ code: 'E_TOO_LARGE' })
  expect(process.memoryUsage().rss - before).toBeLessThan(500 * MIB)
  expect(statSync(file).size).toBe(1_500 * MIB)
})
