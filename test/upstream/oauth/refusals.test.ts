import { describe, expect, it } from 'vitest'
import { createTokenStore } from '../../../src/upstream/oauth/store.ts'
import { until, withServers } from '../host.ts'
import { listening, loginAt, saidOfItself, withFolder, withRig } from './rig.ts'

/** A server that wants a login, with an authorization server that says of itself what a test likes. */
async function withMetadata(
  change: (origin: string) => object,
  test: (rig: { readonly opened: string[]; readonly requests: string[]; login(): Promise<unknown> }) => Promise<void>,
): Promise<void> {
  const requests: string[] = []
  const { origin, close } = await listening((own) => (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    const said = saidOfItself(own, request.url, { registration_endpoint: `${own}/register`, ...change(own) })
    if (!said) return void response.writeHead(request.url === '/mcp' ? 401 : 404).end()
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(said))
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

  it('that has more to say of itself than anybody needs is refused, and nothing of it is kept', () =>
    withMetadata(
      () => ({ more: 'x'.repeat(2_000_000) }),
      async ({ opened, login }) => {
        expect(await refusal(login())).toMatch(/^E_AUTH_FAILED: web cannot be logged in to: the answer is longer than /)
        expect(opened).toEqual([])
      },
    ))

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

describe('a token endpoint', () => {
  /** What it answers, and the status of the server that wants the token, with all that was logged. */
  async function answered(body: string): Promise<string> {
    const { origin, close } = await listening((own) => (request, response) => {
      const said = saidOfItself(own, request.url)
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
  ])('that gives a token with %s is told of, and the token is told to nobody', async (_what, body) => {
    const heard = await answered(body)
    expect(heard).toContain('the authorization server gave a token that no header can carry')
    expect(heard).not.toContain('top-secret')
  })

  it.each([
    ['not JSON', 'top-secret=1'],
    ['JSON and more', `${given({})} top-secret`],
  ])('that answers with what is %s is told of, and nothing of its answer', async (_what, body) => {
    const heard = await answered(body)
    expect(heard).toContain(
      'web cannot be logged in to: the authorization server answered with something that is not JSON',
    )
    expect(heard).not.toContain('top-secret')
  })
})
