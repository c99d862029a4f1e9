import { describe, expect, it } from 'vitest'
import { createTokenStore } from '../../../src/upstream/oauth/store.ts'
import { until, withServers } from '../host.ts'
import { listening, loginAt, withFolder, withRig } from './rig.ts'

/** A server that wants a login, with an authorization server that says of itself what a test likes. */
async function withMetadata(
  change: (origin: string) => object,
  test: (rig: { readonly opened: string[]; readonly requests: string[]; login(): Promise<unknown> }) => Promise<void>,
): Promise<void> {
  const requests: string[] = []
  const { origin, close } = await listening((own) => (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    const json = (body: object): void => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    }
    if (request.url?.startsWith('/.well-known/oauth-protected-resource'))
      return json({ resource: `${own}/mcp`, authorization_servers: [own] })
    if (request.url === '/.well-known/oauth-authorization-server')
      return json({
        issuer: own,
        authorization_endpoint: `${own}/authorize`,
        token_endpoint: `${own}/token`,
        registration_endpoint: `${own}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        ...change(own),
      })
    response.writeHead(request.url === '/mcp' ? 401 : 404).end()
  })
  const opened: string[] = []
  try {
    await withFolder((dir) =>
      test({
        opened,
        requests,
        login: () =>
          loginAt(
            `${origin}/mcp`,
            createTokenStore(dir, undefined),
            {},
            { open: async (url) => void opened.push(url) },
          ),
      }),
    )
  } finally {
    close()
  }
}

const refusal = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'no error',
    (error: { code?: string; message: string }) => `${error.code}: ${error.message}`,
  )

describe('a server that names where to log in', () => {
  const metadata = 'Bearer resource_metadata="http://169.254.169.254/x"'

  it('is not believed when the address is internal: no connection is made [AUTH-06]', () =>
    withRig(
      async ({ as, login }) => {
        expect(await refusal(login())).toBe(
          'E_SSRF_BLOCKED: The address is refused: a metadata address is not allowed here.',
        )
        expect(as.requests).toEqual([])
      },
      { resource: { challenge: metadata } },
    ))

  it('is not believed by a running server either, whose status says so [AUTH-06]', () =>
    withRig(
      ({ as, server, store }) =>
        withServers(
          { web: { url: server.url } },
          async ({ upstreams }) => {
            await until(() => upstreams.status()[0]?.state === 'failing')
            expect(upstreams.status()[0]?.reason).toBe('The address is refused: a metadata address is not allowed here')
            expect(as.requests).toEqual([])
          },
          { tokens: async () => store, wait: false },
        ),
      { resource: { challenge: metadata } },
    ))

  it.each([
    ['http://10.0.0.1/as', 'a private address is not allowed here'],
    ['http://as.example/', 'plain http is not allowed here'],
  ])('may not send us to %s for an authorization server', (url, why) =>
    withRig(
      async ({ login }) => expect(await refusal(login())).toBe(`E_SSRF_BLOCKED: The address is refused: ${why}.`),
      { resource: { metadata: { authorization_servers: [url] } } },
    ),
  )

  it('may send us to a private one where the operator says so', () =>
    withRig(
      async ({ login }) =>
        // Nobody listens there, and that is how far it gets.
        expect(await refusal(login({ allowPrivate: true }))).toMatch(
          /^E_UPSTREAM_UNAVAILABLE: .*(ECONNREFUSED|EACCES)/,
        ),
      { resource: { metadata: { authorization_servers: ['http://127.0.0.2:1/'] } } },
    ))
})

describe('an authorization server', () => {
  it.each([
    'javascript:alert(1)',
    'file:///etc/passwd',
    'http://a$(id)b@host/',
    'http://as.example/authorize',
    'https://a"b/',
    'data:text/html,x',
  ])('whose login page is %s is refused and nothing is opened [AUTH-07]', (page) =>
    withMetadata(
      () => ({ authorization_endpoint: page }),
      async ({ opened, requests, login }) => {
        expect(await refusal(login())).toMatch(/^E_(SSRF_BLOCKED|AUTH_FAILED): /)
        expect(opened).toEqual([])
        expect(requests.filter((one) => one.startsWith('POST /register'))).toEqual([])
      },
    ),
  )

  it('that does not say it knows S256 is refused [AUTH-09]', () =>
    withMetadata(
      () => ({ code_challenge_methods_supported: undefined }),
      async ({ opened, login }) => {
        expect(await refusal(login())).toBe('E_AUTH_FAILED: The authorization server does not advertise PKCE S256.')
        expect(opened).toEqual([])
      },
    ))

  it('that only knows plain is refused [AUTH-09]', () =>
    withMetadata(
      () => ({ code_challenge_methods_supported: ['plain'] }),
      async ({ login }) =>
        expect(await refusal(login())).toBe('E_AUTH_FAILED: The authorization server does not advertise PKCE S256.'),
    ))

  it('that is nowhere means that a fixed token is wanted', async () => {
    const { origin, close } = await listening(() => (request, response) => {
      response.writeHead(request.url === '/mcp' ? 401 : 404).end()
    })
    try {
      await withFolder(async (dir) =>
        expect(
          await loginAt(`${origin}/mcp`, createTokenStore(dir, undefined)).catch((error: unknown) => error),
        ).toMatchObject({
          code: 'E_AUTH_FAILED',
          message: 'web does not say where to log in, so it seems to want a fixed token.',
          hint: 'Give it one: mcpServers.web.headers {"Authorization": "Bearer ${env:TOKEN}"}.',
        }),
      )
    } finally {
      close()
    }
  })

  it('that calls itself by the name of another is refused', () =>
    withMetadata(
      () => ({ issuer: 'https://other.example' }),
      async ({ login }) => expect(await refusal(login())).toMatch(/^E_AUTH_FAILED: web cannot be logged in to: /),
    ))

  it('that wants tokens fetched from an internal address is refused', () =>
    withMetadata(
      () => ({ token_endpoint: 'https://10.0.0.1/token' }),
      async ({ opened, login }) => {
        expect(await refusal(login())).toBe(
          'E_SSRF_BLOCKED: The address is refused: a private address is not allowed here.',
        )
        expect(opened).toEqual([])
      },
    ))
})
