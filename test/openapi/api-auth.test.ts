import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { filesIn, serve } from './mock.ts'
import { withApis } from './with-apis.ts'

const documentWith = (tokenUrl: string | undefined, more: object = {}): string =>
  JSON.stringify({
    openapi: '3.1.0',
    info: { title: 'CRM', version: '1' },
    security: [{ oauth: ['read'] }],
    components: {
      securitySchemes: { oauth: { type: 'oauth2', flows: { clientCredentials: { tokenUrl, scopes: { read: '' } } } } },
    },
    paths: { '/notes': { get: { operationId: 'notes', responses: {} } } },
    ...more,
  })

let files: ReturnType<typeof filesIn>
let server: Awaited<ReturnType<typeof serve>>
let requests: string[] = []
let served = ''
beforeAll(async () => {
  server = await serve(({ method, url, headers }, response) => {
    if (url === '/docs/api.json') return void response.end(served)
    requests.push(`${method} ${url} ${headers.authorization}`)
    response.setHeader('content-type', 'application/json').end('{"access_token":"token-1"}')
  })
  files = filesIn({
    'relative.json': documentWith('/oauth/token'),
    'elsewhere.json': documentWith('https://login.example.com/token'),
    'none.json': documentWith(undefined),
    'plain.json': documentWith('http://127.0.0.1:9/token', { servers: [{ url: 'https://api.example.com' }] }),
  })
})
beforeEach(() => {
  requests = []
})
afterAll(async () => {
  files.remove()
  await server.close()
})

const auth = { type: 'oauth2', clientId: 'me', clientSecret: 'client-secret-42' }
const BASIC = 'Basic bWU6Y2xpZW50LXNlY3JldC00Mg=='

describe('a relative token URL', () => {
  it('is resolved against baseUrl', () =>
    withApis(
      { crm: { document: `${files.dir}/relative.json`, baseUrl: `${server.url}/crm`, auth } },
      async ({ call, apis }) => {
        expect(apis.problems()).toEqual([])
        await call('api_crm.notes')
        expect(requests).toEqual([`POST /oauth/token ${BASIC}`, 'GET /crm/notes Bearer token-1'])
      },
    ))

  it.each([
    ['/oauth/token', '/crm', '/oauth/token'],
    ['oauth/token', '/crm/v1/', '/crm/v1/oauth/token'],
    ['oauth/token', '../crm', '/oauth/token'],
    ['token', undefined, '/token'],
  ])('is resolved against the server of the document: %s, %s', async (tokenUrl, url, path) => {
    served = documentWith(tokenUrl, url === undefined ? {} : { servers: [{ url }] })
    const document = `${server.url}/docs/api.json`
    await withApis({ crm: { document, allowPrivate: true, auth } }, async ({ call, apis }) => {
      expect(apis.problems()).toEqual([])
      await call('api_crm.notes')
      expect(requests[0]).toBe(`POST ${path} ${BASIC}`)
    })
  })
})

describe('credentials that make every call fail are reported:', () => {
  const problemsOf = async (file: string, settings: object): Promise<readonly string[]> => {
    let problems: readonly string[] = []
    await withApis({ crm: { document: `${files.dir}/${file}`, ...settings } }, async ({ apis, call }) => {
      problems = apis.problems()
      await expect(call('api_crm.notes')).rejects.toThrow()
    })
    return problems
  }

  it('the document names no token URL', async () => {
    expect(await problemsOf('none.json', { baseUrl: server.url, auth })).toEqual([
      'openapi.crm.auth: its document names no token URL, so calls fail. Set openapi.crm.auth.tokenUrl.',
    ])
    expect(await problemsOf('none.json', { baseUrl: server.url, auth: { oauth: auth } })).toEqual([
      'openapi.crm.auth.oauth: its document names no token URL, so calls fail. Set openapi.crm.auth.oauth.tokenUrl.',
    ])
  })

  it('the token URL is on another server', async () => {
    expect(await problemsOf('elsewhere.json', { baseUrl: server.url, auth })).toEqual([
      'openapi.crm.auth: its document names the token URL https://login.example.com/token, which is on another server than the API, so calls fail. Set openapi.crm.auth.tokenUrl to this address.',
    ])
  })

  it('the token URL is private or plain http', async () => {
    expect(await problemsOf('plain.json', { auth })).toEqual([
      'openapi.crm.auth: its document names the token URL http://127.0.0.1:9/token, which is private or uses plain http, so calls fail. Set openapi.crm.allowPrivate to true.',
    ])
  })

  it('the document is on another server than the API', async () => {
    served = documentWith('/token', { servers: [{ url: 'https://api.example.com' }] })
    await withApis({ crm: { document: `${server.url}/docs/api.json`, allowPrivate: true, auth } }, async ({ apis }) =>
      expect(apis.problems()).toEqual([
        'openapi.crm: its document names the server https://api.example.com, but is on another server. Pegboard does not send credentials there, so calls fail. Set openapi.crm.baseUrl.',
      ]),
    )
  })

  it('no security scheme has the name', () =>
    withApis(
      { crm: { document: `${files.dir}/relative.json`, baseUrl: server.url, auth: { oath: auth } } },
      async ({ apis }) =>
        expect(apis.problems()).toEqual([
          'openapi.crm.auth names "oath", which is no security scheme of its document; did you mean "oauth"?',
        ]),
    ))
})

it('a call without a token URL fails with the setting to change', () =>
  withApis(
    { crm: { document: `${files.dir}/none.json`, baseUrl: server.url, auth: { oauth: auth } } },
    async ({ call }) => {
      await expect(call('api_crm.notes')).rejects.toMatchObject({
        code: 'E_BACKEND_UNAVAILABLE',
        message: 'The document of crm names no token URL.',
        hint: 'The operator can set openapi.crm.auth.oauth.tokenUrl.',
      })
      expect(requests).toEqual([])
    },
  ))
