import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { filesIn, serve } from './mock.ts'
import { withApis } from './with-apis.ts'

const answers = {
  200: {
    description: 'ok',
    content: {
      'application/json': {
        schema: { type: 'array', items: { type: 'object', properties: { a: { type: 'integer' } } } },
      },
    },
  },
}
const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Answers', version: '1' },
  security: [{ token: ['read'] }],
  components: {
    securitySchemes: {
      token: { type: 'oauth2', flows: { clientCredentials: { tokenUrl: 'TOKEN_URL', scopes: { read: 'read' } } } },
      key: { type: 'apiKey', in: 'query', name: 'api_key' },
    },
  },
  paths: {
    '/{what}': {
      parameters: [{ name: 'what', in: 'path', required: true, schema: { type: 'string' } }],
      get: { operationId: 'get', responses: {} },
      post: { operationId: 'list', responses: answers },
      put: { operationId: 'open', security: [], responses: {} },
      delete: { operationId: 'keyed', security: [{ key: [] }], responses: {} },
    },
  },
}

let files: ReturnType<typeof filesIn>
let server: Awaited<ReturnType<typeof serve>>
let tokens = 0
const SECRET = 'client-secret-42'

beforeAll(async () => {
  server = await serve(({ url, headers }, response) => {
    const what = url.split('?')[0]
    const send = (status: number, type: string, body: string | Buffer, more: Record<string, string> = {}) =>
      response.writeHead(status, { 'content-type': type, ...more }).end(body)
    if (what === '/token')
      return send(
        200,
        'application/json',
        JSON.stringify({ access_token: `issued-token-${++tokens}`, expires_in: 3600 }),
      )
    if (what === '/json') return send(200, 'application/json', '{"a":1}')
    if (what === '/list') return send(200, 'application/json', '[{"a":1}]')
    if (what === '/echo') return send(200, 'application/json', JSON.stringify({ url, headers }))
    if (what === '/picture') return send(200, 'image/png', Buffer.from([1, 2, 3]))
    if (what === '/bytes') return send(200, 'application/zip', Buffer.from([1, 2, 3]))
    if (what === '/latin') return send(200, 'text/csv; charset=iso-8859-1', Buffer.from('name;ä', 'latin1'))
    if (what === '/quoted')
      return send(200, 'Application/JSON; Charset="UTF-16LE"', Buffer.from('{"a":"ä"}', 'utf16le'))
    if (what === '/unknown') return send(200, 'text/plain; charset=klingon', 'ä')
    if (what === '/latinerror') return send(400, 'text/plain;charset=windows-1252', Buffer.from('für \x80', 'latin1'))
    if (what === '/empty') return response.writeHead(204).end()
    if (what === '/moved') return response.writeHead(302, { location: 'http://169.254.169.254/' }).end()
    if (what === '/relative') return response.writeHead(307, { location: '/login?token=a-token-to-hide' }).end('moved')
    if (what === '/nowhere') return response.writeHead(303).end()
    if (what === '/unchanged') return response.writeHead(304).end()
    if (what === '/busy') return send(429, 'application/json', '{"error":"slow down"}', { 'retry-after': '7' })
    if (what === '/broken') return send(500, 'text/html', `<h1>${headers.authorization}</h1>`)
    if (what === '/large') return send(200, 'text/plain', 'x'.repeat(5_000))
    if (what === '/expired')
      return headers.authorization === 'Bearer issued-token-1'
        ? send(401, 'application/json', '{"error":"expired"}')
        : send(200, 'application/json', '{"ok":true}')
    if (what === '/unseen')
      return send(200, 'application/json', JSON.stringify({ a: `said\u202e${String.fromCodePoint(0xe006f, 0xe0062)}` }))
    if (what === '/numbers')
      return send(200, 'application/json', '{"id":9007199254740993,"list":[{"big":1e400}],"plain":9007199254740991}')
    if (what === '/cut') {
      response.writeHead(200, { 'content-type': 'text/plain', 'content-length': '1000' }).write('abc')
      return setTimeout(() => response.destroy(), 20)
    }
    if (what === '/slow') return undefined
    send(404, 'application/json', '{"error":"no such thing"}')
  })
  files = filesIn({ 'api.json': JSON.stringify(DOCUMENT).replace('TOKEN_URL', `${server.url}/token`) })
})
afterAll(async () => {
  files.remove()
  await server.close()
})

const api = (more: object = {}) => ({ a: { document: `${files.dir}/api.json`, baseUrl: server.url, ...more } })
const get = 'api_a.get'

describe('a response', () => {
  it('becomes the matching content: objects, lists, images, files, nothing', () =>
    withApis(api(), async ({ call }) => {
      expect(await call(get, { what: 'json' })).toEqual({
        content: [{ type: 'text', text: '{"a":1}' }],
        structuredContent: { a: 1 },
      })
      expect(await call('api_a.list', { what: 'list' })).toMatchObject({ structuredContent: { items: [{ a: 1 }] } })
      expect(await call(get, { what: 'picture' })).toEqual({
        content: [{ type: 'image', data: 'AQID', mimeType: 'image/png' }],
      })
      expect(await call(get, { what: 'bytes' })).toEqual({
        content: [{ type: 'resource', resource: { uri: 'api://a%20get', mimeType: 'application/zip', blob: 'AQID' } }],
      })
      expect(await call(get, { what: 'empty' })).toEqual({ content: [{ type: 'text', text: 'Done: 204 No Content.' }] })
    }))

  it('is decoded with its charset, or as UTF-8', () =>
    withApis(api(), async ({ call }) => {
      expect(await call(get, { what: 'latin' })).toEqual({ content: [{ type: 'text', text: 'name;ä' }] })
      expect(await call(get, { what: 'quoted' })).toMatchObject({ structuredContent: { a: 'ä' } })
      expect(await call(get, { what: 'unknown' })).toEqual({ content: [{ type: 'text', text: 'ä' }] })
      await expect(call(get, { what: 'latinerror' })).rejects.toMatchObject({
        message: 'a get was answered 400 Bad Request: für €',
      })
    }))

  it('has no hidden text', () =>
    withApis(api(), async ({ call }) =>
      expect(await call(get, { what: 'unseen' })).toEqual({
        content: [{ type: 'text', text: '{"a":"said"}' }],
        structuredContent: { a: 'said' },
      }),
    ))

  it('keeps all digits of its numbers, as text where JavaScript cannot represent them', () =>
    withApis(api(), async ({ call }) =>
      expect(await call(get, { what: 'numbers' })).toEqual({
        content: [{ type: 'text', text: '{"id":9007199254740993,"list":[{"big":1e400}],"plain":9007199254740991}' }],
        structuredContent: { id: '9007199254740993', list: [{ big: '1e400' }], plain: 9_007_199_254_740_991 },
      }),
    ))

  it('has structured content if the schema promised it', () =>
    withApis(api(), async ({ call, tool }) => {
      expect(tool('api_a.list').output).toEqual({
        type: 'object',
        properties: {
          items: { description: 'Response of the API.', items: { properties: { a: { description: '(integer)' } } } },
        },
      })
      for (const what of ['json', 'list', 'picture', 'empty', 'bytes'])
        expect((await call('api_a.list', { what })).structuredContent, what).toBeTypeOf('object')
    }))

  it('with an error status reports status and body, and when to retry', () =>
    withApis(api(), async ({ call }) => {
      await expect(call(get, { what: 'nothing' })).rejects.toMatchObject({
        code: 'E_TOOL_FAILED',
        message: 'a get was answered 404 Not Found: {"error":"no such thing"}',
        data: { status: 404, body: { error: 'no such thing' } },
        retryable: false,
      })
      await expect(call(get, { what: 'busy' })).rejects.toMatchObject({
        retryable: true,
        retryAfterMs: 7_000,
        hint: 'Try again in 7 s.',
      })
    }))

  it('that redirects is not followed, and names the new address', () =>
    withApis(api({ auth: { '*': { type: 'bearer', token: 'a-token-to-hide' } } }), async ({ call }) => {
      const hint = 'Use another tool for this address. If the whole API has moved, the operator can change its baseUrl.'
      const before = server.seen.length
      await expect(call(get, { what: 'moved' })).rejects.toMatchObject({
        code: 'E_REDIRECT_BLOCKED',
        message:
          'a get was answered 302 Found: it redirects to http://169.254.169.254/. Pegboard does not follow redirects of APIs.',
        hint,
        retryable: false,
        data: { status: 302, location: 'http://169.254.169.254/' },
      })
      await expect(call(get, { what: 'relative' })).rejects.toMatchObject({
        code: 'E_REDIRECT_BLOCKED',
        message: `a get was answered 307 Temporary Redirect: it redirects to ${server.url}/login?token=<secret>. Pegboard does not follow redirects of APIs.`,
        hint,
      })
      await expect(call(get, { what: 'nowhere' })).rejects.toMatchObject({
        code: 'E_REDIRECT_BLOCKED',
        message:
          'a get was answered 303 See Other: it redirects to an address that it does not name. Pegboard does not follow redirects of APIs.',
        data: { status: 303 },
      })
      await expect(call(get, { what: 'unchanged' })).rejects.toMatchObject({
        code: 'E_TOOL_FAILED',
        message: 'a get was answered 304 Not Modified: nothing has changed',
      })
      expect(server.seen.length).toBe(before + 4)
    }))

  it('that is too large, too late or missing is rejected', () =>
    withApis(api({ maxResponseBytes: 1_024, timeoutMs: 300 }), async ({ call }) => {
      await expect(call(get, { what: 'large' })).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
      await expect(call(get, { what: 'slow' })).rejects.toMatchObject({
        code: 'E_TIMEOUT',
        message: 'The API a did not answer within 300 ms.',
      })
      const abort = new AbortController()
      const call_ = call(get, { what: 'slow' }, abort.signal)
      abort.abort(new Error('no longer wanted'))
      await expect(call_).rejects.toThrow('no longer wanted')
    }))

  it('that ends too early is an error, which says that the API has the request', () =>
    withApis(api(), async ({ call }) => {
      await expect(call(get, { what: 'cut' })).rejects.toMatchObject({
        code: 'E_BACKEND_UNAVAILABLE',
        message: 'The API a closed the connection before the end of its response.',
        hint: 'Try again later.',
        retryable: true,
      })
      await expect(call('api_a.list', { what: 'cut' })).rejects.toMatchObject({
        code: 'E_BACKEND_UNAVAILABLE',
        message: 'The API a closed the connection before the end of its response.',
        hint: 'The API may have done what the call asked for. Check this before you call it again.',
        retryable: false,
      })
    }))

  it('of an unreachable API names the API, and not its address', () =>
    withApis(api({ baseUrl: 'http://127.0.0.1:9' }), async ({ call }) => {
      await expect(call(get, { what: 'x' })).rejects.toMatchObject({
        code: 'E_BACKEND_UNAVAILABLE',
        message: 'The API a cannot be reached.',
        retryable: true,
      })
    }))
})

describe('credentials', () => {
  const oauth = { token: { type: 'oauth2', clientId: 'me', clientSecret: SECRET } }

  it('are client tokens, requested once and again after a rejection', () =>
    withApis(api({ auth: oauth }), async ({ call }) => {
      tokens = 0
      await Promise.all([call(get, { what: 'json' }), call(get, { what: 'json' })])
      expect(tokens).toBe(1)
      const asked = server.seen.find(({ url }) => url === '/token')
      expect(asked?.body.toString()).toBe('grant_type=client_credentials&scope=read')
      expect(await call(get, { what: 'expired' })).toMatchObject({ structuredContent: { ok: true } })
      expect(tokens).toBe(2)
    }))

  it.each([
    [{ type: 'bearer', token: 'static-token-1' }, { authorization: 'Bearer static-token-1' }],
    [
      { type: 'basic', username: 'me', password: 'päss:word' },
      { authorization: `Basic ${Buffer.from('me:päss:word').toString('base64')}` },
    ],
    [{ type: 'apiKey', in: 'header', name: 'X-Key', value: 'key-0123456789' }, { 'x-key': 'key-0123456789' }],
  ])('are sent as their profile says: %j', (auth, sent) =>
    withApis(api({ auth, headers: { 'X-Own': 'own' } }), async ({ call }) => {
      await call(get, { what: 'json' })
      expect(server.seen.at(-1)?.headers).toMatchObject({ ...sent, 'x-own': 'own' })
    }),
  )

  it('are sent only where the document declares them', () =>
    withApis(api({ auth: { ...oauth, key: { type: 'apiKey', value: 'key-0123456789' } } }), async ({ call }) => {
      await call('api_a.open', { what: 'json' })
      expect(server.seen.at(-1)?.headers.authorization).toBeUndefined()
      await call('api_a.keyed', { what: 'json' })
      expect(server.seen.at(-1)?.url).toBe('/json?api_key=key-0123456789')
    }))

  it('appear in no result, error or log', () =>
    withApis(
      api({
        auth: { ...oauth, key: { type: 'apiKey', value: 'key-0123456789' } },
        headers: { 'X-Token': 'static-secret' },
      }),
      async ({ call, logged }) => {
        const results = await Promise.all([
          call(get, { what: 'echo' }),
          call('api_a.keyed', { what: 'echo' }),
          call(get, { what: 'broken' }).catch((error: Error) => ({ ...error, message: error.message })),
        ])
        const told = JSON.stringify([results, logged])
        for (const secret of [SECRET, 'key-0123456789', 'static-secret', 'issued-token-'])
          expect(told).not.toContain(secret)
        expect(told).toContain('<secret>')
      },
    ))
})
