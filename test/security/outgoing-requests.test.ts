import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { hasPrefix } from '../../modules/web/web-clients.ts'
import { createFetch } from '../../src/policy/guarded-fetch.ts'
import { open } from '../modules/web-servers.ts'
import { filesIn, serve } from '../openapi/mock.ts'
import { withApis } from '../openapi/with-apis.ts'

// Attacks through requests of a model to other servers, and through the answers.

const string = { schema: { type: 'string' } }
const DOCUMENT = {
  openapi: '3.0.3',
  info: { title: 'Things', version: '1' },
  security: [{ key: [] }],
  components: { securitySchemes: { key: { type: 'apiKey', in: 'cookie', name: 'key' } } },
  paths: {
    '/things/{id}': {
      get: {
        operationId: 'get',
        parameters: [
          { name: 'id', in: 'path', required: true, ...string },
          { name: 'q', in: 'query', allowReserved: true, ...string },
          { name: 'key', in: 'cookie', ...string },
          { name: 'theme', in: 'cookie', ...string },
        ],
        responses: {},
      },
    },
    '/lists/{ids}': {
      get: {
        operationId: 'list',
        parameters: [{ name: 'ids', in: 'path', required: true, schema: { type: 'array', items: { type: 'string' } } }],
        responses: {},
      },
    },
  },
}

async function things(
  act: (
    asked: (tool: string, input: object) => Promise<{ readonly url: string; readonly cookie: unknown }>,
  ) => Promise<void>,
): Promise<void> {
  const files = filesIn({ 'api.json': JSON.stringify(DOCUMENT) })
  const server = await serve((_request, response) => response.setHeader('content-type', 'application/json').end('{}'))
  const auth = { type: 'apiKey', value: 'of-the-operator' }
  const api = { document: `${files.dir}/api.json`, baseUrl: `${server.url}/v1`, auth }
  try {
    await withApis({ things: api }, ({ call }) =>
      act(async (tool, input) => {
        const before = server.seen.length
        await call(`api_things.${tool}`, input)
        expect(server.seen.length).toBe(before + 1)
        const seen = server.seen.at(-1)
        return { url: String(seen?.url), cookie: seen?.headers.cookie }
      }),
    )
  } finally {
    files.remove()
    await server.close()
  }
}

test('rejects a value that leaves its path, also with slashes written as %2F', () =>
  things(async (asked) => {
    for (const id of [
      '../admin',
      '..\\admin',
      'a/../../admin',
      'a/./b',
      '../',
      '/..',
      '..%2fadmin',
      '%2e%2e%2Fadmin',
      'a%5c..%5cb',
    ])
      await expect(asked('get', { id }), id).rejects.toMatchObject({ code: 'E_VALIDATION' })
    for (const ids of [['a', '../b'], ['..%2F']])
      await expect(asked('list', { ids })).rejects.toMatchObject({ code: 'E_VALIDATION' })
    expect((await asked('get', { id: 'feature/..x' })).url).toBe('/v1/things/feature%2F..x')
    expect((await asked('get', { id: '%2e%2e' })).url).toBe('/v1/things/%252e%252e')
    expect((await asked('get', { id: '?a#b//host' })).url).toBe('/v1/things/%3Fa%23b%2F%2Fhost')
  }))

test('a value with reserved characters cannot start another parameter', () =>
  things(async (asked) => {
    expect((await asked('get', { id: '1', q: 'a&admin=true' })).url).toBe('/v1/things/1?q=a%26admin=true')
    expect((await asked('get', { id: '1', q: '1+1#x' })).url).toBe('/v1/things/1?q=1%2B1%23x')
    expect((await asked('get', { id: '1', q: 'a/b:c,d' })).url).toBe('/v1/things/1?q=a/b:c,d')
  }))

test('sends a key in a cookie once per name', () =>
  things(async (asked) => {
    expect((await asked('get', { id: '1', key: 'of-the-model', theme: 'dark' })).cookie).toBe(
      'theme=dark; key=of-the-operator',
    )
  }))

test('a URL prefix does not match an address that leaves it after decoding', () => {
  const prefix = 'https://api.example.com/v1/'
  for (const path of ['..%2fadmin', 'a%2F..%2F..%2fadmin', '..%5Cadmin', '%2e%2e%2fadmin', 'a/%2E.%2fb', 'x%2f..'])
    expect(hasPrefix(prefix + path, prefix), path).toBe(false)
  for (const path of ['items', 'a%2Fb', 'a..b/c', '...%2f', 'items?next=..%2f..%2f', 'items#..%2f'])
    expect(hasPrefix(prefix + path, prefix), path).toBe(true)
})

test('limits a response that is compressed twice, also between the layers', async () => {
  // Forty megabytes between the layers, from members that decompress to nothing.
  const nothing = gzipSync('')
  const bomb = gzipSync(Buffer.alloc(2_000_000 * nothing.length, nothing))
  expect(bomb.length).toBeLessThan(1_000_000)
  const server = createServer((_request, answer) => {
    answer.setHeader('content-encoding', 'gzip, gzip').end(bomb)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const fetch = createFetch({ allowPrivate: true, setting: 'a.setting', maxBytes: 1_000_000, maxWireBytes: 1_000_000 })
  onTestFinished(async () => {
    await fetch.close()
    server.closeAllConnections()
    server.close()
  })
  const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  await expect(answer.text()).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
})

test('sends a login to no other address, even if its own server redirects there', async () => {
  const asked: string[] = []
  const server = createServer((request, answer) => {
    asked.push(`${request.url} ${request.headers.authorization ?? ''}`.trim())
    const to = { '/v1/a': '/v1/b', '/v1/out': '/admin', '/v1/climb': '/v1/..%2fadmin' }[String(request.url)]
    if (to === undefined) answer.setHeader('content-type', 'text/plain').end('there')
    else answer.writeHead(302, { location: to }).end()
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { call } = await open({
    url_fetch: {
      guard: { allowed_url_prefixes: [url] },
      secrets: { enabled: true, allow_profiles: ['api'] },
      auth_profiles: { api: { secret: 'the-secret', url_prefixes: [`${url}/v1/`], follow_redirects: true } },
    },
  })
  expect(await call('url_fetch', { url: `${url}/v1/a`, auth_profile: 'api' })).toMatchObject({ body: 'there' })
  for (const path of ['out', 'climb'])
    await expect(call('url_fetch', { url: `${url}/v1/${path}`, auth_profile: 'api' })).rejects.toMatchObject({
      code: 'E_REDIRECT_BLOCKED',
    })
  const own = 'Bearer the-secret'
  expect(asked).toEqual([`/v1/a ${own}`, `/v1/b ${own}`, `/v1/out ${own}`, `/v1/climb ${own}`])
})
