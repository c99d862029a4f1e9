import { describe, expect, it } from 'vitest'
import { createTokenStore } from '../../../src/upstream/oauth/token-store.ts'
import { until, withServers } from '../host.ts'
import {
  listenOnFreePort,
  logInLikePerson,
  loginAt,
  oauthMetadata,
  withFolder,
  withOAuthServers,
} from './oauth-servers.ts'

/** A server that requires a login, whose authorization server returns the metadata of a test. */
async function withMetadata(
  change: (origin: string) => object,
  test: (rig: {
    readonly opened: string[]
    readonly requests: string[]
    login(open?: (url: string) => Promise<void>): Promise<unknown>
  }) => Promise<void>,
  registered: object = { redirect_uris: [] },
): Promise<void> {
  const requests: string[] = []
  const { origin, close } = await listenOnFreePort((own) => (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    const said =
      request.url === '/register'
        ? { client_id: 'any', ...registered }
        : request.url === '/token'
          ? { access_token: 'any', token_type: 'Bearer' }
          : oauthMetadata(own, request.url, { registration_endpoint: `${own}/register`, ...change(own) })
    if (!said) return void response.writeHead(request.url === '/mcp' ? 401 : 404).end()
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(said))
  })
  const opened: string[] = []
  try {
    await withFolder((dir) =>
      test({
        opened,
        requests,
        login: (open = async (url) => void opened.push(url)) =>
          loginAt(`${origin}/mcp`, createTokenStore(dir, undefined), {}, { open }),
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

describe('a server that names its authorization server', () => {
  it.each([
    ['http://10.0.0.1/as', 'a private address is not allowed here'],
    ['http://as.example/', 'plain http is not allowed here'],
  ])('may not name %s', (url, why) =>
    withOAuthServers(
      async ({ login }) => expect(await refusal(login())).toBe(`E_SSRF_BLOCKED: The address is refused: ${why}.`),
      { resource: { metadata: { authorization_servers: [url] } } },
    ),
  )

  it('may name a private one if the operator allows it', () =>
    withOAuthServers(
      async ({ login }) =>
        // No server listens there, so the login stops at this point.
        expect(await refusal(login({ allowPrivate: true }))).toMatch(
          /^E_UPSTREAM_UNAVAILABLE: .*(ECONNREFUSED|EACCES)/,
        ),
      { resource: { metadata: { authorization_servers: ['http://127.0.0.2:1/'] } } },
    ))
})

describe('a server that reports an address', () => {
  it.each([
    ['http://user@', ''],
    ['http://user:password@', ''],
    ['http://', '#other'],
    ['http://', '#'],
  ])('with a user name, password or fragment gets no login: %s…%s', async (before, after) => {
    const { origin, close } = await listenOnFreePort((own) => (request, response) => {
      const { host } = new URL(own)
      const said = request.url?.startsWith('/.well-known/oauth-protected-resource')
        ? { resource: `${before}${host}/mcp${after}`, authorization_servers: [own] }
        : oauthMetadata(own, request.url, { registration_endpoint: `${own}/register` })
      if (!said) return void response.writeHead(request.url === '/mcp' ? 401 : 404).end()
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(said))
    })
    try {
      await withFolder(async (dir) =>
        expect(await refusal(loginAt(`${origin}/mcp`, createTokenStore(dir, undefined)))).toBe(
          'E_AUTH_FAILED: web reports its address with a user name, password or fragment.',
        ),
      )
    } finally {
      close()
    }
  })
})

describe('an authorization server', () => {
  it('that does not exist means that a fixed token is required', async () => {
    const { origin, close } = await listenOnFreePort(() => (request, response) => {
      response.writeHead(request.url === '/mcp' ? 401 : 404).end()
    })
    try {
      await withFolder(async (dir) =>
        expect(
          await loginAt(`${origin}/mcp`, createTokenStore(dir, undefined)).catch((error: unknown) => error),
        ).toMatchObject({
          code: 'E_AUTH_FAILED',
          message: 'web does not name a login page, so it probably needs a fixed token.',
          hint: 'Set one: mcpServers.web.headers {"Authorization": "Bearer ${env:TOKEN}"}.',
        }),
      )
    } finally {
      close()
    }
  })

  it('with oversized metadata is rejected, and nothing is stored', () =>
    withMetadata(
      () => ({ more: 'x'.repeat(2_000_000) }),
      async ({ opened, login }) => {
        expect(await refusal(login())).toMatch(/^E_AUTH_FAILED: Cannot log in to web: the response is longer than /)
        expect(opened).toEqual([])
      },
    ))

  it('with another issuer name is rejected', () =>
    withMetadata(
      () => ({ issuer: 'https://other.example' }),
      async ({ login }) => expect(await refusal(login())).toMatch(/^E_AUTH_FAILED: Cannot log in to web: /),
    ))

  it('with a login page at an internal address is rejected', () =>
    withMetadata(
      () => ({ authorization_endpoint: 'https://10.0.0.1/reboot' }),
      async ({ opened, login }) => {
        expect(await refusal(login())).toBe(
          'E_SSRF_BLOCKED: The address is refused: a private address is not allowed here.',
        )
        expect(opened).toEqual([])
      },
    ))

  it('does not choose the port on which the next login listens', () =>
    withMetadata(
      () => ({}),
      async ({ login }) => {
        const ports: number[] = []
        const open = async (url: string): Promise<void> => {
          const page = new URL(url).searchParams
          const back = new URL(page.get('redirect_uri') as string)
          ports.push(Number(back.port))
          back.search = String(new URLSearchParams({ code: 'c', state: page.get('state') as string }))
          await fetch(back)
        }
        await login(open)
        await login(open)
        expect(ports[1]).toBe(ports[0])
      },
      { redirect_uris: ['http://127.0.0.1:18181/callback'] },
    ))

  it('with a token endpoint at an internal address is rejected', () =>
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

describe('an authorization server that does not send `iss`', () => {
  it('gives no code to another one that sends the browser on to it with the id of the same client', () =>
    withOAuthServers(
      async ({ authorizationServer, server, store, login }) => {
        const grant = await login()
        const requests: string[] = []
        const evil = await listenOnFreePort((own) => (request, response) => {
          const url = new URL(request.url ?? '', own)
          requests.push(`${request.method} ${url.pathname}`)
          if (url.pathname === '/authorize') {
            url.searchParams.set('client_id', String(grant.clients?.[authorizationServer.origin]?.client_id))
            url.searchParams.set('scope', 'read')
            url.searchParams.set('resource', server.url)
            return void response.writeHead(302, { location: `${authorizationServer.origin}/auth${url.search}` }).end()
          }
          const said =
            url.pathname === '/register'
              ? { client_id: 'any', redirect_uris: [] }
              : oauthMetadata(own, request.url, { registration_endpoint: `${own}/register` })
          if (!said) return void response.writeHead(url.pathname === '/mcp' ? 401 : 404).end()
          response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(said))
        })
        let shown = ''
        try {
          const attacked = loginAt(
            `${evil.origin}/mcp`,
            store,
            {},
            {
              open: undefined,
              show: (url) => {
                shown = url
              },
              paste: async () => (await logInLikePerson(shown)).url,
            },
          )
          expect(await refusal(attacked)).toBe('E_AUTH_FAILED: This is not the redirect address of this login.')
          expect(requests).toContain('GET /authorize')
          expect(requests).not.toContain('POST /token')
        } finally {
          evil.close()
        }
      },
      { iss: false },
    ))

  it('although its metadata says that it does fails the login', () =>
    withMetadata(
      () => ({ authorization_response_iss_parameter_supported: true }),
      async ({ requests, login }) => {
        expect(await refusal(login(answerWithCode))).toBe(
          'E_AUTH_FAILED: The response is from another authorization server than expected.',
        )
        expect(requests).not.toContain('POST /token')
      },
    ))

  it('gets its code although the server names another one while the person logs in', () => {
    let elsewhere = false
    return withMetadata(
      () => (elsewhere ? { issuer: 'http://127.0.0.1:1', token_endpoint: 'http://127.0.0.1:1/token' } : {}),
      async ({ requests, login }) => {
        await refusal(
          login(async (url) => {
            elsewhere = true
            await answerWithCode(url)
          }),
        )
        expect(requests).toContain('POST /token')
      },
    )
  })
})

/** The browser of a person who is logged in already. */
async function answerWithCode(page: string): Promise<void> {
  const { searchParams } = new URL(page)
  const redirect = new URL(String(searchParams.get('redirect_uri')))
  redirect.search = String(new URLSearchParams({ code: 'x', state: String(searchParams.get('state')) }))
  await fetch(redirect)
}

describe('a token endpoint', () => {
  /** The status of the server that needs the token, with the whole log. */
  async function answered(body: string): Promise<string> {
    const { origin, close } = await listenOnFreePort((own) => (request, response) => {
      const said = oauthMetadata(own, request.url)
      const text = request.url === '/token' ? body : said && JSON.stringify(said)
      if (text === undefined) return void response.writeHead(401).end()
      response.writeHead(200, { 'content-type': 'application/json' }).end(text)
    })
    let heard = ''
    try {
      await withFolder((dir) =>
        withServers(
          {
            web: {
              url: `${origin}/mcp`,
              start: 'background',
              auth: { type: 'client-credentials', clientId: 'robot', clientSecret: 'hush' },
            },
          },
          async ({ upstreams, logged }) => {
            await until(() => upstreams.status()[0]?.state === 'failing')
            heard = JSON.stringify([upstreams.status(), logged])
          },
          { wait: false, tokens: async () => createTokenStore(dir, undefined) },
        ),
      )
    } finally {
      close()
    }
    return heard
  }
  const given = (more: object): string =>
    JSON.stringify({ access_token: 'top-secret-token', token_type: 'Bearer', ...more })

  it.each([
    ['a line end', given({ access_token: 'top-secret\r\nx-evil: 1' })],
    ['a NUL', given({ access_token: 'top-secret\0token' })],
    ['letters no header carries', given({ access_token: 'top-secret-\u202e' })],
  ])('that returns a token with %s is reported, without the token', async (_what, body) => {
    const heard = await answered(body)
    expect(heard).toContain('the authorization server gave a token that no header can carry')
    expect(heard).not.toContain('top-secret')
  })

  it.each([
    ['not JSON', 'top-secret=1'],
    ['JSON and more', `${given({})} top-secret`],
  ])('that answers with %s is reported, without its response', async (_what, body) => {
    const heard = await answered(body)
    expect(heard).toContain('Cannot log in to web: the authorization server answered with something that is not JSON')
    expect(heard).not.toContain('top-secret')
  })
})
