import { execFile, spawn } from 'node:child_process'
import { createPublicKey } from 'node:crypto'
import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { generateKeyPair } from 'jose'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { answerOf, temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'
import { cli, place } from '../process.ts'
import { type Answer, ask, initialize, modern, open, speak, TOKEN } from '../server/echo.ts'
import { modern as modernServer, scripted } from '../upstream/host.ts'
import {
  listenOnFreePort,
  oauthMetadata,
  startAuthorizationServer,
  startProtectedServer,
} from '../upstream/oauth/oauth-servers.ts'
import { connectWithToken, countRuns, type HttpApp, startHttpApp } from './http-app.ts'
import { type Issuer, person, startIssuer } from './issuer.ts'

const METADATA = '/.well-known/oauth-protected-resource'
const bearer = (token: string) => ({ anonymous: true, headers: { authorization: `Bearer ${token}` } })
const nowS = (): number => Math.floor(Date.now() / 1_000)

/** A server that accepts access tokens of a real issuer. */
async function guarded(
  oauth: Record<string, unknown> = {},
  settings: Record<string, unknown> = {},
  issuer?: Issuer,
): Promise<HttpApp & { readonly issuer: Issuer; readonly own: string; status(token: string): Promise<number> }> {
  const of = issuer ?? (await startIssuer())
  const server = await startHttpApp({ oauth: { issuer: of.origin, ...oauth } }, settings)
  return Object.assign(server, {
    issuer: of,
    own: `${server.url}/mcp`,
    status: async (token: string) => (await ask(server.url, { ...bearer(token), body: initialize })).status,
  })
}

/** Claims of a valid token, unless a test changes them. */
const claims = ({ issuer, own }: { readonly issuer: Issuer; readonly own: string }) => ({
  iss: issuer.origin,
  aud: own,
  sub: 'alice',
  exp: nowS() + 600,
})

function unauthorized(answer: Answer, { url }: HttpApp): void {
  expect(answer.status).toBe(401)
  expect(answer.headers['www-authenticate']).toBe(
    `Bearer realm="pegboard", error="invalid_token", resource_metadata="${url}${METADATA}/mcp"`,
  )
}

test('AUTH-01: a token for another service gets 401 with the metadata, and reaches no server', async () => {
  const reached: string[] = []
  const behind = await listenOnFreePort(() => (request, response) => {
    // Pegboard polls this by itself; no token and no call is involved.
    let body = ''
    request.setEncoding('utf8').on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      reached.push(`${request.headers.authorization} ${body}`)
      response.writeHead(404).end()
    })
  })
  onTestFinished(behind.close)
  const server = await guarded(
    {},
    { openapi: {}, mcpServers: { web: { url: `${behind.origin}/mcp`, start: 'eager' } } },
  )
  const { issuer, own, url } = server
  expect(await server.status(await issuer.token(own))).toBe(200)
  const other = await issuer.token('https://other.example/mcp')
  const spoken = modern(1, 'tools/call', { name: 'probe__echo', arguments: {} })
  for (const path of ['/mcp', '/mcp/default', '/messages'])
    unauthorized(
      await ask(url, { ...spoken, path, anonymous: true, headers: { ...spoken.headers, ...bearer(other).headers } }),
      server,
    )
  for (const aud of [url, `${own}/`, `${own}/x`, own.replace('/mcp', ''), [], undefined])
    unauthorized(await ask(url, { ...bearer(await issuer.sign({ ...claims(server), aud })), body: initialize }), server)
  expect(await countRuns(server)).toBe(0)
  expect(reached.length).toBeGreaterThan(0)
  expect(reached.filter((one) => one.includes('tools/call') || one.includes('Bearer'))).toEqual([])
})

test('a refused access token is logged with the reason and without the token, once a minute, and the error names the issuer', async () => {
  const server = await guarded({ scopes: { tools: { roles: [] } } })
  const { issuer, own } = server
  const tokens = await Promise.all([
    ...Array.from({ length: 20 }, () => issuer.sign({ ...claims(server), aud: 'https://other.example/mcp' })),
    issuer.sign({ ...claims(server), exp: nowS() - 600 }),
    issuer.sign({ ...claims(server), iss: 'https://issuer.example' }),
    issuer.sign({ ...claims(server), scope: 'other' }),
    ...['one', 'two', 'three'].map((name) => {
      const header = { alg: 'RS256', kid: issuer.key.kid, crit: [name], [name]: 1 }
      const parts = [header, claims(server)].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      return `${parts.join('.')}.c2lnbmF0dXJl`
    }),
  ])
  const answers = []
  for (const token of tokens) answers.push(await ask(server.url, { ...bearer(token), body: initialize }))
  expect(answers.map(({ status }) => status)).toEqual([...Array(22).fill(401), 403, 401, 401, 401])
  expect(answers[0]?.json.error?.message).toBe(
    `Unauthorized: send "Authorization: Bearer …" with an access token of ${issuer.origin} or a token from the operator (pegboard token create)`,
  )
  const told = server.logged
    .map((line) => JSON.parse(line))
    .filter(({ message }) => message === 'an access token was refused')
  expect(told.map(({ level, reason, expectedAudience }) => [level, reason, expectedAudience])).toEqual([
    ['info', 'unexpected "aud" claim value', own],
    ['info', '"exp" claim timestamp check failed', undefined],
    ['info', 'it is from another issuer', undefined],
    ['info', 'none of its scopes is in server.http.oauth.scopes', undefined],
    ['info', 'Extension Header Parameter "one" is not recognized', undefined],
  ])
  for (const token of tokens) expect(server.logged.join()).not.toContain(token.split('.')[2])
})

describe('AUTH-02', () => {
  test('AUTH-02: a token without a signature, with a shared secret made of the public key, or with its own key gets 401', async () => {
    const server = await guarded()
    const { issuer } = server
    const { d: _d, p: _p, q: _q, dp: _dp, dq: _dq, qi: _qi, ...open } = issuer.key
    const publicKey = createPublicKey({ key: open as never, format: 'jwk' })
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    const secrets = [
      publicKey.export({ type: 'spki', format: 'pem' }),
      publicKey.export({ type: 'spki', format: 'der' }),
      JSON.stringify(open),
      String(open.n),
    ].map((secret) => Buffer.from(secret as string))
    const own = await generateKeyPair('RS256')
    const tokens = [
      ...['none', 'None', 'NONE', ''].map((alg) => `${part({ alg, kid: issuer.key.kid })}.${part(claims(server))}.`),
      ...(await Promise.all(
        secrets.map((secret) => issuer.sign(claims(server), { alg: 'HS256' }, new Uint8Array(secret))),
      )),
      // A correct signature with a key inside the token.
      await issuer.sign(claims(server), { jwk: open } as never, own.privateKey),
      await issuer.sign(claims(server), { jku: `${server.url}/keys` } as never, own.privateKey),
      `${(await issuer.sign(claims(server))).slice(0, -4)}AAAA`,
    ]
    for (const token of tokens) unauthorized(await ask(server.url, { ...bearer(token), body: initialize }), server)
    expect(await server.status(await issuer.sign(claims(server)))).toBe(200)
  })

  test('AUTH-02: Pegboard asks for an unknown key once per cool-down, however many tokens name one', async () => {
    const server = await guarded({ keysCooldownMs: 60_000 })
    const { issuer } = server
    expect(await server.status(await issuer.token(server.own))).toBe(200)
    expect(issuer.count('GET /jwks')).toBe(1)
    const unknown = await Promise.all(
      Array.from({ length: 50 }, (_, n) => issuer.sign(claims(server), { kid: `no-such-${n}` })),
    )
    expect(await Promise.all(unknown.map((token) => server.status(token)))).toEqual(Array(50).fill(401))
    expect(issuer.count('GET /jwks')).toBe(1)
  })

  test('AUTH-02: Pegboard reads the keys again after the cool-down, and then rejects the old key', async () => {
    const server = await guarded({ keysCooldownMs: 1_000 })
    const { issuer } = server
    const old = await issuer.token(server.own)
    expect(await server.status(old)).toBe(200)
    await issuer.rotate()
    const fresh = await issuer.token(server.own)
    await expect.poll(() => server.status(fresh), { interval: 200 }).toBe(200)
    expect(issuer.count('GET /jwks')).toBe(2)
    expect(await server.status(old)).toBe(401)
  })
})

test('AUTH-04: a token in the address gets 401, even a valid one, and is never logged', async () => {
  const server = await guarded()
  const good = await server.issuer.token(server.own)
  for (const token of [TOKEN, good])
    for (const name of ['access_token', 'token', 'Authorization']) {
      const path = `/mcp?${name}=${encodeURIComponent(token)}`
      expect((await ask(server.url, { path, anonymous: true, body: initialize })).status).toBe(401)
      expect((await ask(server.url, { path: `/sse?${name}=${token}`, method: 'GET', anonymous: true })).status).toBe(
        401,
      )
    }
  // A token as a form parameter is rejected too.
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  expect((await ask(server.url, { anonymous: true, headers: form, body: `access_token=${good}` })).status).toBe(401)
  expect(await server.status(`${good}x`)).toBe(401)
  for (const secret of [TOKEN, good, good.split('.')[2] as string])
    expect(server.logged.join('\n')).not.toContain(secret)
  expect(server.logged.length).toBeGreaterThan(0)
})

test('AUTH-06: Pegboard rejects an internal address that a server names for its login, and the status says so', async () => {
  const as = await startAuthorizationServer()
  const behind = await startProtectedServer(as, { challenge: 'Bearer resource_metadata="http://169.254.169.254/x"' })
  onTestFinished(as.close)
  onTestFinished(behind.close)
  const { app } = await startHttpApp({}, { mcpServers: { web: { url: behind.url, start: 'eager' } } })
  await expect.poll(() => app.upstreams.status()[0]?.state).toBe('failing')
  expect(app.upstreams.status()[0]?.reason).toBe('The address is refused: a metadata address is not allowed here')
  expect(as.requests).toEqual([])
  const where = place({ mcpServers: { web: { url: behind.url } } })
  const login = await promisify(execFile)(process.execPath, [cli, 'auth', 'web', '--config', where.config], {
    env: where.env,
  }).catch((error: { code: number; stderr: string }) => error)
  expect(login).toMatchObject({ code: 1 })
  expect(login.stderr).toContain('E_SSRF_BLOCKED: The address is refused: a metadata address is not allowed here.')
  expect(as.requests).toEqual([])
}, 60_000)

/**
 * `pegboard auth` at a server whose authorization server returns the metadata of a test; also records what the browser
 * gets.
 */
async function login(
  metadata: (origin: string) => object,
): Promise<{ readonly code: number; readonly stderr: string; readonly opened: boolean; readonly requests: string[] }> {
  const requests: string[] = []
  const { origin, close } = await listenOnFreePort((own) => (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    const json = (body: object): void => void response.end(JSON.stringify(body))
    response.setHeader('content-type', 'application/json')
    const said = oauthMetadata(own, request.url, { registration_endpoint: `${own}/register`, ...metadata(own) })
    if (said) return json(said)
    if (request.url === '/register') {
      response.statusCode = 201
      return json({ client_id: 'x', redirect_uris: ['http://127.0.0.1/callback'] })
    }
    response.writeHead(request.url === '/mcp' ? 401 : 404).end()
  })
  onTestFinished(close)
  const where = place({ mcpServers: { web: { url: `${origin}/mcp` } } })
  const [browser, heard] = [join(where.dir, 'browser'), join(where.dir, 'heard')]
  writeFileSync(browser, `#!/bin/sh\necho "$@" > "${heard}"\n`)
  chmodSync(browser, 0o755)
  const { code = 0, stderr } = (await promisify(execFile)(
    process.execPath,
    [cli, 'auth', 'web', '--timeout', '3', '--config', where.config],
    { env: { ...where.env, BROWSER: browser } },
  ).catch((error: { code: number; stderr: string }) => error)) as { code?: number; stderr: string }
  return { code, stderr, opened: existsSync(heard), requests }
}

describe.skipIf(process.platform === 'win32')('AUTH-07', () => {
  test('AUTH-07: Pegboard opens a valid login page', async () => {
    const { code, opened } = await login(() => ({}))
    // No person answers, so it ends with its timeout.
    expect([code, opened]).toEqual([1, true])
  }, 60_000)

  test.each([
    'javascript:alert(1)',
    'file:///etc/passwd',
    'http://a$(id)b@host/',
    'http://as.example/authorize',
    'https://a"b/',
    'data:text/html,x',
  ])(
    'AUTH-07: Pegboard rejects %s as a login page, registers no client and starts no process',
    async (page) => {
      const { code, stderr, opened, requests } = await login(() => ({ authorization_endpoint: page }))
      expect(code).toBe(1)
      expect(stderr).toMatch(/E_(SSRF_BLOCKED|AUTH_FAILED): /)
      expect([opened, requests.filter((one) => one.startsWith('POST /register'))]).toEqual([false, []])
    },
    60_000,
  )
})

test.each([[undefined], [['plain']], [[]]])(
  'AUTH-09: Pegboard rejects an authorization server that advertises %j instead of S256',
  async (code_challenge_methods_supported) => {
    const { code, stderr, opened, requests } = await login(() => ({ code_challenge_methods_supported }))
    expect([code, opened]).toEqual([1, false])
    expect(stderr).toContain('E_AUTH_FAILED: The authorization server does not advertise PKCE S256.')
    expect(requests.filter((one) => one.startsWith('POST '))).toEqual(['POST /mcp'])
  },
  60_000,
)

describe.skipIf(process.platform === 'win32')('AUTH-10', () => {
  /** A login that waits for its redirect, in its own process. */
  async function waiting(flags: readonly string[]) {
    const requests: string[] = []
    const { origin, close } = await listenOnFreePort((own) => (request, response) => {
      requests.push(`${request.method} ${request.url}`)
      const json = (body: object): void => void response.end(JSON.stringify(body))
      response.setHeader('content-type', 'application/json')
      const said = oauthMetadata(own, request.url, { registration_endpoint: `${own}/register` })
      if (said) return json(said)
      if (request.url === '/register') {
        response.statusCode = 201
        return json({ client_id: 'x', redirect_uris: ['http://127.0.0.1/callback'] })
      }
      if (request.url === '/token') return json({ access_token: 'stolen', token_type: 'Bearer' })
      response.writeHead(request.url === '/mcp' ? 401 : 404).end()
    })
    onTestFinished(close)
    const where = place({ mcpServers: { web: { url: `${origin}/mcp` } } })
    const browser = join(where.dir, 'browser')
    writeFileSync(browser, '#!/bin/sh\n')
    chmodSync(browser, 0o755)
    const child = spawn(process.execPath, [cli, 'auth', 'web', '--timeout', '20', ...flags, '--config', where.config], {
      env: { ...where.env, BROWSER: browser },
    })
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await ended
    })
    await expect.poll(() => /https?:\/\/\S+\/authorize\S*/.exec(stderr)?.[0]).toBeTypeOf('string')
    const page = new URL(String(/https?:\/\/\S+\/authorize\S*/.exec(stderr)?.[0]))
    const redirect = String(page.searchParams.get('redirect_uri'))
    const state = String(page.searchParams.get('state'))
    return {
      child,
      ended,
      redirect,
      state,
      origin,
      stderr: () => stderr,
      redeemed: () => requests.includes('POST /token'),
    }
  }

  test('AUTH-10: Pegboard rejects a callback without the state, with a used state, at another path or of another issuer, and redeems no code', async () => {
    const { ended, redirect, state, stderr, redeemed } = await waiting([])
    const status = async (url: string): Promise<number | string> =>
      fetch(url).then(
        (answer) => answer.status,
        () => 'nobody listens',
      )
    expect(await status(`${redirect}?code=c`)).toBe(400)
    expect(await status(`${redirect}?code=c&state=`)).toBe(400)
    expect(await status(`${redirect}/?code=c&state=${state}`)).toBe(404)
    expect(await status(`${redirect}?code=c&state=${state}&iss=https%3A%2F%2Fother.example`)).toBe(200)
    expect([400, 'nobody listens']).toContain(await status(`${redirect}?code=c&state=${state}`))
    expect(await ended).toBe(1)
    expect(stderr()).toContain('E_AUTH_FAILED: The response is from another authorization server than expected.')
    expect(redeemed()).toBe(false)
  })

  test.each([
    ['another host', (url: string) => url.replace('127.0.0.1', 'localhost')],
    ['another port', (url: string) => url.replace(/:\d+/, ':1')],
    ['another scheme', (url: string) => url.replace('http:', 'https:')],
    ['another path', (url: string) => url.replace('/callback', '/elsewhere')],
    ['a trailing slash', (url: string) => `${url}/`],
    ['a user name', (url: string) => url.replace('://', '://me@')],
  ])(
    'AUTH-10: with --no-browser, Pegboard rejects a pasted address with %s and does not redeem its code',
    async (_what, change) => {
      const { child, ended, redirect, state, stderr, redeemed } = await waiting(['--no-browser'])
      // A single wrong address is only a warning.
      child.stdin.write(`${change(redirect)}?code=c&state=${state}\n`)
      await expect.poll(stderr).toContain('warning: This is not the redirect address')
      child.stdin.write(`${change(redirect)}?code=c&state=${state}\n`)
      expect(await ended).toBe(1)
      expect(stderr()).toContain('E_AUTH_FAILED: This is not the redirect address of this login.')
      expect(redeemed()).toBe(false)
    },
  )
})

describe('AUTH-11', () => {
  const BOB = 'another-token-for-bob'
  const asking = { name: 'old__ask_person', arguments: {} }
  const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }
  const inputResponses = { 'elicitation-1': { action: 'accept', content: { name: 'Ann' } } }

  async function behind() {
    const clock = createManualClock(Date.now())
    const ticking = { ...systemClock, now: () => clock.now() + systemClock.now() - began }
    const began = systemClock.now()
    const server = await startHttpApp(
      { tokens: [{ token: BOB, principal: 'bob' }] },
      { mcpServers: { old: { ...scripted(), start: 'eager' }, new: { ...modernServer(), start: 'eager' } } },
      { clock: ticking, app: ticking },
    )
    await server.app.settled(20_000)
    const post = async (params: Record<string, unknown>, token = TOKEN): Promise<Answer['json']> => {
      const { body, headers } = modern(1, 'tools/call', params)
      const { params: all } = body as { params: { _meta: object } }
      const answer = await ask(server.url, {
        anonymous: true,
        headers: { ...headers, authorization: `Bearer ${token}` },
        body: { ...(body as object), params: { ...all, _meta: { ...all._meta, ...capabilities } } },
      })
      if (answer.headers['content-type'] !== 'text/event-stream') return answer.json
      return JSON.parse(/^data: (.*"(?:result|error)".*)$/m.exec(answer.text)?.[1] ?? '{}') as Answer['json']
    }
    return { server, clock, post }
  }

  test('AUTH-11: an altered requestState, or one of another principal, tool or arguments, gets -32602, and the call keeps waiting', async () => {
    const { server, post } = await behind()
    const first = await post(asking)
    const requestState = String(first.result?.['requestState'])
    const altered = [0, Math.floor(requestState.length / 2), requestState.length - 1].map(
      (at) => requestState.slice(0, at) + (requestState[at] === 'A' ? 'B' : 'A') + requestState.slice(at + 1),
    )
    for (const [params, token] of [
      ...altered.map((state) => [{ ...asking, requestState: state, inputResponses }, TOKEN] as const),
      [{ ...asking, requestState: '', inputResponses }, TOKEN],
      [{ ...asking, requestState, inputResponses }, BOB],
      [{ name: 'new__echo', arguments: {}, requestState, inputResponses }, TOKEN],
      [{ name: 'probe__echo', arguments: {}, requestState, inputResponses }, TOKEN],
      [{ ...asking, arguments: { x: 1 }, requestState, inputResponses }, TOKEN],
    ] as const)
      expect((await post(params, token)).error?.code).toBe(-32602)
    expect(await countRuns(server)).toBe(0)
    // No other answer reached the call: it still accepts the answer of its own client.
    const again = await post({ ...asking, requestState, inputResponses })
    expect(JSON.parse((again.result as { content: [{ text: string }] }).content[0].text)).toEqual(
      inputResponses['elicitation-1'],
    )
    expect((await post({ ...asking, requestState, inputResponses })).error?.code).toBe(-32602)
  }, 60_000)

  test('AUTH-11: an expired requestState gets -32602', async () => {
    const { server, clock, post } = await behind()
    const requestState = (await post(asking)).result?.['requestState']
    clock.pass(2 * 60 * 60_000)
    expect((await post({ ...asking, requestState, inputResponses })).error?.code).toBe(-32602)
    expect(await countRuns(server)).toBe(0)
  }, 60_000)
})

test('AUTH-13: a token that is too short, too long, empty, repeated or has a suffix gets 401, never 500', async () => {
  const server = await startHttpApp({ tokens: [{ token: 'a-token-of-another-length-altogether', principal: 'ann' }] })
  const { url, port } = server
  for (const authorization of [
    '',
    'Bearer',
    'Bearer ',
    'Bearer x',
    'Bearer "',
    `Bearer ${TOKEN.slice(0, -1)}`,
    `Bearer ${TOKEN}x`,
    `Bearer ${TOKEN} x`,
    `Bearer ${TOKEN},${TOKEN}`,
    `Bearer ${TOKEN}%0A`,
    `Bearer\t${TOKEN}`,
    `Basic ${TOKEN}`,
    `Basic ${Buffer.from(`x:${TOKEN}`).toString('base64')}`,
    TOKEN,
    `Bearer ${'x'.repeat(12_000)}`,
    `Bearer ${'a.'.repeat(4_000)}b`,
    'Bearer pegboard_0123456789ab_x',
    'Bearer ../../etc/passwd',
    'Bearer __proto__',
  ]) {
    const answer = await ask(url, { anonymous: true, headers: { authorization }, body: initialize })
    expect([authorization, answer.status]).toEqual([authorization, 401])
    expect(answer.headers['www-authenticate']).toBe('Bearer realm="pegboard", error="invalid_token"')
  }
  const raw = (line: string) =>
    speak(port, `GET /mcp HTTP/1.1\r\nHost: localhost\r\n${line}\r\nConnection: close\r\n\r\n`)
  // Node rejects a line end in a header: the request ends there.
  for (const line of [
    `Authorization: Bearer ${TOKEN}\n`,
    `Authorization: Bearer ${TOKEN}\r`,
    `Authorization: Bearer\r\n ${TOKEN}`,
  ])
    expect(await raw(line)).toMatch(/^HTTP\/1\.1 40[01] /)
  expect(await raw(`Authorization: Bearer ${TOKEN}\0`)).toMatch(/^HTTP\/1\.1 400 /)
  expect((await ask(url, { body: initialize })).status).toBe(200)
  expect(server.logged.join('\n')).not.toContain(TOKEN)
})

test.each([
  ['GET', '/authorize'],
  ['POST', '/register'],
  ['POST', '/token'],
  ['GET', '/.well-known/oauth-authorization-server'],
  ['GET', '/.well-known/openid-configuration'],
  ['GET', '/callback'],
  ['GET', '/login'],
])('AUTH-14: the request %s %s gets 404, because Pegboard issues no tokens', async (method, path) => {
  const server = await startHttpApp({ oauth: { issuer: 'https://issuer.example' } })
  for (const anonymous of [true, false])
    expect(
      (await ask(server.url, { method, path, anonymous, ...(method === 'POST' ? { body: {} } : {}) })).status,
    ).toBe(404)
})

describe('an access token', () => {
  test('of a real issuer grants access and names the principal', async () => {
    const server = await guarded()
    const machine = await connectWithToken(server.url, await server.issuer.token(server.own))
    expect(answerOf(await machine.callTool({ name: 'probe__who', arguments: {} }))).toEqual({
      principal: 'oauth:machine',
      profile: 'default',
      roles: [],
    })
  })

  test('is rejected if it is expired, not yet valid, of another issuer, for another audience or not an access token', async () => {
    const server = await guarded()
    const { issuer } = server
    const good = claims(server)
    const status = async (change: object, header = {}) =>
      server.status(await issuer.sign({ ...good, ...change }, header))
    expect(await status({ exp: nowS() - 60 })).toBe(401)
    expect(await status({ exp: undefined })).toBe(401)
    expect(await status({ exp: 'tomorrow' })).toBe(401)
    expect(await status({ nbf: nowS() + 60 })).toBe(401)
    expect(await status({ iss: 'https://other.example' })).toBe(401)
    expect(await status({ iss: `${issuer.origin}/` })).toBe(401)
    expect(await status({ iss: undefined })).toBe(401)
    expect(await status({ sub: undefined })).toBe(401)
    expect(await status({ sub: 7 })).toBe(401)
    expect(await status({ sub: 'a\nb' })).toBe(401)
    expect(await status({ sub: 'x'.repeat(129) })).toBe(401)
    // A token that is bound to a key, which a bearer cannot prove.
    expect(await status({ cnf: { jkt: 'x' } })).toBe(401)
    expect(await status({}, { typ: 'logout+jwt' })).toBe(401)
    expect(await status({}, { typ: 'at+jwt' })).toBe(200)
    expect(await status({ aud: ['https://other.example', server.own] })).toBe(200)
    const short = await startIssuer({ ttlS: 1 })
    const other = await guarded({}, {}, short)
    const token = await short.token(other.own)
    expect(await other.status(token)).toBe(200)
    await expect.poll(() => other.status(token), { interval: 500 }).toBe(401)
  }, 60_000)

  test('cannot claim the name of a local token', async () => {
    const server = await guarded({ principalClaim: 'preferred_username' })
    const token = await server.issuer.sign({ ...claims(server), preferred_username: 'local' })
    const told = await (await connectWithToken(server.url, token)).callTool({ name: 'probe__who', arguments: {} })
    expect(answerOf(told)).toMatchObject({ principal: 'oauth:local' })
  })

  test('has exactly the rights that its scopes have in the configuration', async () => {
    const server = await guarded(
      {
        scopes: {
          'probe:read': { tools: ['probe.*'], effect: 'read' },
          'probe:write': { tools: ['probe.note'], roles: ['writer'] },
          team: { profile: 'team' },
        },
      },
      { profiles: { team: { use: ['hello'] } } },
    )
    const { issuer, own, url } = server
    const seen = async (scope: string): Promise<string[]> =>
      (await (await connectWithToken(url, await issuer.token(own, scope))).listTools()).tools
        .map(({ name }) => name)
        .filter((name) => /^(probe|hello)/.test(name))
    const read = ['probe__echo', 'probe__wait', 'probe__runs', 'probe__who']
    expect(await seen('probe:read')).toEqual(read)
    expect(await seen('probe:write')).toEqual(['probe__note'])
    expect((await seen('probe:read probe:write')).sort()).toEqual([...read, 'probe__note'].sort())
    expect(await seen('team')).toEqual(['hello__say_hello', 'hello__greet_many', 'hello__status'])
    const answer = await ask(url, {
      ...bearer(await issuer.sign({ ...claims(server), scope: 'openid' })),
      body: initialize,
    })
    expect([answer.status, answer.headers['www-authenticate']]).toEqual([
      403,
      `Bearer realm="pegboard", error="insufficient_scope", scope="probe:read probe:write team", resource_metadata="${url}${METADATA}/mcp"`,
    ])
    expect(
      (await ask(url, { ...bearer(await issuer.token(own, 'team')), path: '/mcp/default', body: initialize })).status,
    ).toBe(403)
  })

  test('ends its streams when it expires', async () => {
    const server = await guarded()
    const token = await server.issuer.sign({ ...claims(server), exp: nowS() + 3 })
    const stream = await open(server.url, { ...bearer(token), method: 'GET', path: '/sse' })
    expect(stream.statusCode).toBe(200)
    await new Promise((resolve) => stream.resume().once('close', resolve))
  })

  test('of an unreachable issuer gets 503, and Pegboard does not ask the issuer again for each token', async () => {
    const issuer = await startIssuer()
    const server = await guarded({}, {}, issuer)
    const token = await issuer.token(server.own)
    issuer.away(true)
    // Anybody can send something like a token, so it must not cause requests to the issuer.
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    const foreign = await issuer.sign({ ...claims(server), iss: 'https://other.example' })
    for (const odd of ['a.b.c', '..', 'e30.e30.', `${part({ alg: 'none' })}.${part(claims(server))}.x`, foreign])
      expect(await server.status(odd)).toBe(401)
    expect(issuer.count('GET /.well-known/oauth-authorization-server')).toBe(0)
    const answers = await Promise.all(Array.from({ length: 20 }, () => server.status(token)))
    expect(answers).toEqual(Array(20).fill(503))
    expect(issuer.count('GET /.well-known/oauth-authorization-server')).toBeLessThan(10)
    const asked = issuer.count('GET /.well-known/oauth-authorization-server')
    expect(await server.status(token)).toBe(503)
    expect(issuer.count('GET /.well-known/oauth-authorization-server')).toBe(asked)
    expect(server.logged.filter((line) => line.includes('cannot be checked') && line.includes('"warn"'))).toHaveLength(
      1,
    )
    // Callers that need no issuer still have access.
    expect(await server.status(TOKEN)).toBe(200)
  })

  test('of an issuer that reports another name is rejected', async () => {
    const issuer = await startIssuer()
    const server = await startHttpApp({ oauth: { issuer: `${issuer.origin}/tenant` } })
    const token = await issuer.sign({
      iss: `${issuer.origin}/tenant`,
      aud: `${server.url}/mcp`,
      sub: 'x',
      exp: nowS() + 60,
    })
    expect((await ask(server.url, { ...bearer(token), body: initialize })).status).toBe(503)
    expect(issuer.count('GET /jwks')).toBe(0)
  })

  test('is not sent to upstream servers', async () => {
    const seen: string[] = []
    const behind = await listenOnFreePort(() => (request, response) => {
      seen.push(JSON.stringify(request.headers))
      response.writeHead(404).end()
    })
    onTestFinished(behind.close)
    const server = await guarded({}, { mcpServers: { web: { url: `${behind.origin}/mcp` } } })
    const token = await server.issuer.token(server.own)
    const machine = await connectWithToken(server.url, token)
    await machine.listTools()
    await expect.poll(() => seen.length).toBeGreaterThan(0)
    expect(seen.join()).not.toContain(token)
  })
})

test('a real client finds the issuer, registers, logs in as a person, and calls a tool', async () => {
  const server = await guarded({
    scopes: { 'probe:read': { tools: ['probe.*'], effect: 'read' }, 'probe:write': { tools: ['probe.*'] } },
  })
  const provider = await person('alice')
  const address = new URL('/mcp', server.url)
  const first = new StreamableHTTPClientTransport(address, { authProvider: provider })
  const info = { name: 'front-test', version: '1' }
  await expect(new Client(info).connect(first)).rejects.toBeInstanceOf(UnauthorizedError)
  expect(provider.code()).not.toBe('')
  await first.finishAuth(new URLSearchParams({ code: provider.code(), iss: server.issuer.origin }))
  const alice = new Client(info)
  await alice.connect(new StreamableHTTPClientTransport(address, { authProvider: provider }))
  onTestFinished(() => alice.close())
  expect(answerOf(await alice.callTool({ name: 'probe__who', arguments: {} }))).toMatchObject({
    principal: 'oauth:alice',
  })
  expect(server.issuer.count('POST /reg')).toBe(1)
})

test('scheduled work of an access token runs with the current rights of its scopes, and not at all without any', async () => {
  const issuer = await startIssuer()
  const dir = temporaryFolder()
  const settings = { execution: { watchers: true, scheduler: true } }
  const scopes = { 'probe:read': { tools: ['probe.*'], effect: 'read' } }
  const plan = async (oauth: Record<string, unknown>, work: (to: Client) => Promise<void>): Promise<HttpApp> => {
    const server = await startHttpApp(
      { publicUrl: 'http://127.0.0.1:9', oauth: { issuer: issuer.origin, ...oauth } },
      settings,
      { dir },
    )
    await server.app.work()
    await work(await connectWithToken(server.url, await issuer.token('http://127.0.0.1:9/mcp', 'probe:read')))
    return server
  }
  const first = await plan({ scopes }, async (machine) => {
    await machine.callTool({ name: 'schedule_once', arguments: { when: 'in 3s', name: 'probe.echo', label: 'one' } })
  })
  await first.close()
  await first.app.stop()
  const second = await plan({ scopes: { 'probe:read': { tools: ['hello.*'] } } }, async (machine) => {
    // Reported once.
    const told: string[] = []
    const hear = async (): Promise<string> => {
      told.push(JSON.stringify(await machine.callTool({ name: 'schedule_list', arguments: {} })))
      return told.join()
    }
    await expect.poll(hear, { timeout: 20_000, interval: 500 }).toContain('[NOTICE] Scheduled job one (probe.echo)')
    expect(told.join()).toMatch(/E_NOT_FOUND|no tool/i)
  })
  expect(await countRuns(second)).toBe(0)
}, 60_000)

test('scheduled work of an access token does not run if the token expired longer ago than configured', async () => {
  const issuer = await startIssuer({ ttlS: 5 })
  const settings = { execution: { watchers: true, scheduler: true } }
  const oauth = { issuer: issuer.origin, plannedForMs: 0 }
  const server = await startHttpApp({ publicUrl: 'http://127.0.0.1:9', oauth }, settings)
  await server.app.work()
  const login = async (): Promise<Client> => connectWithToken(server.url, await issuer.token('http://127.0.0.1:9/mcp'))
  const first = await login()
  await first.callTool({ name: 'schedule_once', arguments: { when: 'in 6s', name: 'probe.echo', label: 'one' } })
  const told: string[] = []
  const hear = async (): Promise<string> => {
    const next = await login()
    told.push(JSON.stringify(await next.callTool({ name: 'schedule_list', arguments: {} })))
    return told.join()
  }
  await expect.poll(hear, { timeout: 30_000, interval: 2_000 }).toContain('[NOTICE] Scheduled job one (probe.echo)')
  expect(told.join()).toContain('its login ended longer ago than server.http.oauth.plannedForMs')
  expect(await countRuns(server)).toBe(0)
}, 60_000)

test('the metadata names the issuer and the public address of this server, and does not exist without an issuer', async () => {
  const issuer = await startIssuer()
  const server = await startHttpApp({
    publicUrl: 'https://mcp.example.com',
    oauth: { issuer: issuer.origin, scopes: { read: { effect: 'read' } } },
  })
  for (const path of [METADATA, `${METADATA}/mcp`]) {
    const answer = await ask(server.url, { method: 'GET', path, anonymous: true, headers: { host: 'mcp.example.com' } })
    expect([answer.status, answer.json]).toEqual([
      200,
      {
        resource: 'https://mcp.example.com/mcp',
        authorization_servers: [issuer.origin],
        bearer_methods_supported: ['header'],
        scopes_supported: ['read'],
      },
    ])
    // Never derived from headers of a client.
    expect(
      (await ask(server.url, { method: 'GET', path, anonymous: true, headers: { host: 'evil.example' } })).status,
    ).toBe(403)
    expect((await ask((await startHttpApp()).url, { method: 'GET', path, anonymous: true })).status).toBe(404)
  }
})
