import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Agent, request as nodeRequest } from 'node:http'
import { connect as connectSocket, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Client, SSEClientTransport } from '@modelcontextprotocol/client'
import { describe, expect, onTestFinished, test } from 'vitest'
import { routes } from '../../src/server/router.ts'
import { createManualClock } from '../clock.ts'
import { cli, place, serveHttp } from '../process.ts'
import { type Ask, ask, call, initialize, modern, open, openSession, speak, TOKEN } from '../server/echo.ts'
import { connectWithToken, countRuns, startHttpApp } from './http-app.ts'

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
const ping = (id: number) => ({ jsonrpc: '2.0', id, method: 'ping' })
const textOf = (result: unknown): string => (result as { content: [{ text: string }] }).content[0].text

describe('HTTP-01', () => {
  test.each([
    ['a foreign origin', 'https://evil.example'],
    ['the null origin', 'null'],
    ['an origin that only looks local', 'http://localhost.evil.example'],
    ['an origin with a port that is none', 'http://localhost:99999'],
    ['a local user at a foreign origin', 'http://localhost@evil.example'],
    ['a local origin with a user', 'http://evil@localhost'],
    ['another scheme at this machine', 'file://localhost'],
    ['nothing at all', ''],
    ['two origins', ['http://localhost', 'https://evil.example']],
    ['two origins in one', 'http://localhost, https://evil.example'],
  ])('HTTP-01: %s in Origin gets 403, before authentication and before the body is read', async (_what, origin) => {
    const server = await startHttpApp()
    for (const anonymous of [true, false])
      for (const body of ['not json', call(1, 'probe__echo')]) {
        const headers = { origin } as Record<string, string>
        const answer = await ask(server.url, { anonymous, headers, body })
        expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([403, undefined])
      }
    // The announced body has not arrived, and the client gets its answer anyway.
    const said = await speak(
      server.port,
      'POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n',
    )
    expect(said).toMatch(/^HTTP\/1\.1 403 .*connection: close/is)
    expect(await countRuns(server)).toBe(0)
  })
})

test.each([
  ['a foreign host', (port: number) => `evil.example:${port}`],
  ['a host with a user', () => 'localhost@evil.example'],
  ['a local user at a foreign host', () => 'evil@localhost'],
  ['a host that only begins like ours', (port: number) => `localhost.evil.com:${port}`],
  ['a host that only ends like ours', (port: number) => `evil.localhost:${port}`],
  ['a host with a dot behind it', () => 'localhost.'],
  ['an address with a zone', () => '[::1%25eth0]'],
  ['a long form of our address', () => '[0:0:0:0:0:0:0:1]'],
  ['an address in another writing', () => '2130706433'],
  ['a short form of our address', () => '127.1'],
  ['a host with a path', () => 'localhost/evil'],
  ['a host with two ports', (port: number) => `localhost:${port}:80`],
  ['two hosts in one', () => 'localhost, evil.example'],
])('HTTP-02: %s in Host gets 403, whatever the token', async (_what, hostOf) => {
  const server = await startHttpApp()
  const host = hostOf(server.port)
  for (const anonymous of [true, false])
    for (const path of ['/mcp', '/health', '/no-such-page'])
      expect((await ask(server.url, { path, method: 'GET', anonymous, headers: { host } })).status).toBe(403)
  expect((await ask(server.url, { headers: { host }, body: call(1, 'probe__echo') })).status).toBe(403)
  expect(await countRuns(server)).toBe(0)
})

test.each([
  ['0.0.0.0', 'none'],
  ['::', 'none'],
  ['192.0.2.1', 'none'],
  ['0.0.0.0', 'token'],
])(
  'HTTP-05: Pegboard does not start on %s with auth "%s" and no token, and names the setting and the fix',
  async (host, auth) => {
    const where = place({ server: { http: { host, auth, port: 0 } } })
    const { code, stderr } = (await promisify(execFile)(
      process.execPath,
      [cli, 'serve', '--http', '--config', where.config],
      {
        env: where.env,
        timeout: 30_000,
      },
    ).catch((error: unknown) => error)) as { code?: number; stderr: string }
    expect(code).toBe(1)
    expect(stderr).toContain('E_CONFIG_AUTH: server.http.auth is')
    expect(stderr).toMatch(/listen on 127\.0\.0\.1|on a loopback address/)
  },
  60_000,
)

describe('HTTP-06', () => {
  const VERBS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'OPTIONS']
  const OPEN = [
    '/health',
    '/ready',
    '/.well-known/oauth-protected-resource',
    '/.well-known/oauth-protected-resource/mcp',
  ]

  test('HTTP-06: only these routes need no token, and they reveal nothing more', async () => {
    const server = await startHttpApp()
    expect(routes.filter((route) => route.open).map(({ path }) => path)).toEqual(OPEN)
    for (const { path } of routes.filter((route) => route.open)) {
      const { status, json } = await ask(server.url, { method: 'GET', path, anonymous: true })
      expect([200, 404]).toContain(status)
      if (status === 200)
        expect(json).toEqual(
          path === '/ready' ? { status: 'ready' } : { status: 'ok', eventLoopLagMs: expect.any(Number) },
        )
    }
  })

  test('HTTP-06: no route answers a request without a valid token, whatever its method', async () => {
    const server = await startHttpApp({}, { profiles: { team: {} }, telemetry: { prometheus: true } })
    const closed = [...new Set(routes.filter((route) => !route.open).map(({ path }) => path))]
    expect(closed.length).toBeGreaterThan(2)
    const wrong = [undefined, 'Bearer wrong', `Bearer ${TOKEN}x`, `Basic ${TOKEN}`, 'Bearer undefined']
    for (const path of closed.flatMap((one) => [one, `${one}/team`, `${one}/no-such-profile`, `${one}?x=/health`]))
      for (const method of VERBS)
        for (const authorization of wrong) {
          const headers = authorization === undefined ? {} : { authorization }
          const { status, headers: got } = await ask(server.url, { method, path, anonymous: true, headers })
          // A preflight has no token, and returns only the documented headers.
          const there = !path.startsWith('/metrics/')
          const expected = there ? (method === 'OPTIONS' ? 204 : 401) : 404
          expect({ path, method, authorization, status }).toEqual({ path, method, authorization, status: expected })
          if (expected === 401) expect(got['www-authenticate']).toMatch(/^Bearer realm="pegboard"/)
        }
    expect(await countRuns(server)).toBe(0)
    // The token of a profile is not that of the operator.
    const narrow = await startHttpApp(
      { tokens: [{ token: 'a-narrow-token-of-ours', principal: 'local', effect: 'read' }] },
      { telemetry: { prometheus: true } },
    )
    const headers = { authorization: 'Bearer a-narrow-token-of-ours' }
    expect((await ask(narrow.url, { method: 'GET', path: '/metrics', anonymous: true, headers })).status).toBe(403)
    expect((await ask(narrow.url, { method: 'GET', path: '/metrics' })).status).toBe(200)
  }, 60_000)

  test('HTTP-06: open routes accept no other method without a token', async () => {
    const server = await startHttpApp()
    for (const path of OPEN)
      for (const method of VERBS.filter((verb) => verb !== 'GET' && verb !== 'OPTIONS'))
        expect((await ask(server.url, { method, path, anonymous: true })).status).toBe(401)
  })

  test.each([
    '/',
    '/metricsx',
    '/admin',
    '/mcp/',
    '//mcp',
    '/MCP',
    '/mcp//',
    '/%6dcp',
    '/mcp%2f',
    '/./mcp',
    '/x/../mcp',
    '/mcp/a/b',
    '/mcp;x',
    '/mcp\\',
    '/health/mcp',
    '/ready/../mcp',
    '/.well-known/../mcp',
  ])('HTTP-06: the path %s gets 404 with and without a token, and nothing runs', async (path) => {
    const server = await startHttpApp()
    for (const token of ['', `Authorization: Bearer ${TOKEN}\r\n`]) {
      const body = JSON.stringify(call(1, 'probe__echo'))
      const said = await speak(
        server.port,
        `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${token}Content-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
      )
      expect(said).toMatch(/^HTTP\/1\.1 40[04] /)
    }
    expect(await countRuns(server)).toBe(0)
  })

  test('HTTP-06: a caller with a token learns the allowed methods', async () => {
    const server = await startHttpApp()
    const answer = await ask(server.url, { method: 'PUT', path: '/mcp' })
    expect([answer.status, answer.headers.allow]).toEqual([405, 'POST, GET, DELETE'])
    expect((await ask(server.url, { path: '/sse', body: initialize })).status).toBe(405)
  })
})

test('HTTP-08: a header that contradicts the tool, method or revision in the body gets 400 with -32020, and nothing runs', async () => {
  const server = await startHttpApp()
  const params = { name: 'probe__echo', arguments: {} }
  for (const headers of [
    { 'mcp-name': 'probe__note' },
    { 'mcp-name': '' },
    { 'mcp-name': 'probe__echo ' + 'x' },
    { 'mcp-method': 'tools/list' },
    { 'mcp-protocol-version': '2025-11-25' },
  ]) {
    const answer = await ask(server.url, modern(1, 'tools/call', params, headers))
    expect([headers, answer.status, answer.json.error?.code]).toEqual([headers, 400, -32020])
  }
  expect(await countRuns(server)).toBe(0)
  expect((await ask(server.url, modern(1, 'tools/call', params))).status).toBe(200)
  expect(await countRuns(server)).toBe(1)
})

test('HTTP-10: the server rejects an unknown protocol revision with 400 and -32022, and lists the supported ones', async () => {
  const server = await startHttpApp()
  const answer = await ask(server.url, {
    headers: { 'mcp-protocol-version': '2099-01-01' },
    body: call(1, 'probe__echo'),
  })
  expect([answer.status, answer.json.error?.code]).toEqual([400, -32022])
  expect(answer.json.error?.data).toMatchObject({
    requested: '2099-01-01',
    supported: expect.arrayContaining(['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28']),
  })
  const claimed = modern(
    1,
    'tools/call',
    { name: 'probe__echo', arguments: {} },
    { 'mcp-protocol-version': '2099-01-01' },
  )
  const other = await ask(server.url, {
    ...claimed,
    body: JSON.stringify(claimed.body).replaceAll('2026-07-28', '2099-01-01'),
  })
  expect([other.status, other.json.error?.code]).toEqual([400, -32022])
  const long = await ask(server.url, { headers: { 'mcp-protocol-version': 'x'.repeat(4_000) }, body: list })
  expect([long.status, long.text.length < 500]).toEqual([400, true])
  expect(await countRuns(server)).toBe(0)
})

describe('HTTP-11', () => {
  const announced = `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n`

  test('HTTP-11: a body with a too large Content-Length gets 413 immediately, also with Expect: 100-continue', async () => {
    const server = await startHttpApp()
    expect(await speak(server.port, `${announced}\r\n`)).toMatch(/^HTTP\/1\.1 413 .*connection: close/is)
    expect(await speak(server.port, `${announced}Expect: 100-continue\r\n\r\n`)).toMatch(/^HTTP\/1\.1 413 /)
  })

  test('HTTP-11: a body that exceeds the limit while it arrives gets 413 immediately', async () => {
    const server = await startHttpApp({ maxBodyBytes: 10_000 })
    const chunked = announced.replace('Content-Length: 104857600', 'Transfer-Encoding: chunked')
    const chunk = `1000\r\n${' '.repeat(4_096)}\r\n`
    expect(await speak(server.port, `${chunked}\r\n${chunk.repeat(3)}`)).toMatch(/^HTTP\/1\.1 413 /)
    const exact = { body: ' '.repeat(10_000 - JSON.stringify(initialize).length) + JSON.stringify(initialize) }
    expect((await ask(server.url, exact)).status).toBe(200)
    expect((await ask(server.url, { body: ` ${exact.body}` })).status).toBe(413)
  })

  test('HTTP-11: unfinished bodies of one principal have a common limit', async () => {
    const server = await startHttpApp({ maxBodyBytes: 10_000 })
    const head = announced.replace('Content-Length: 104857600', 'Content-Length: 10000')
    const stuck = await Promise.all(
      Array.from(
        { length: 32 },
        () =>
          new Promise<Socket>((resolve) => {
            const socket: Socket = connectSocket(server.port, '127.0.0.1', () =>
              socket.write(`${head}\r\n${' '.repeat(9_999)}`, () => resolve(socket)),
            )
            socket.on('error', () => undefined)
          }),
      ),
    )
    const more = { body: `${' '.repeat(1_000)}${JSON.stringify(initialize)}` }
    await expect.poll(async () => (await ask(server.url, more)).status).toBe(429)
    for (const socket of stuck) socket.destroy()
    await expect.poll(async () => (await ask(server.url, more)).status).toBe(200)
  })

  test.skipIf(process.platform !== 'linux')(
    'HTTP-11: the memory of the server stays flat, whatever clients send',
    async () => {
      const { url, token, child } = await serveHttp(place())
      const rss = (): number =>
        Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1_024
      const { port } = new URL(url)
      const push = async (): Promise<number> => {
        const head = announced.replace(TOKEN, token)
        const piece = Buffer.alloc(1024 * 1024, ' ')
        return new Promise((resolve) => {
          const socket: Socket = connectSocket(Number(port), '127.0.0.1', () => {
            socket.write(`${head}\r\n`)
            const more = (): void => void (socket.destroyed || (socket.write(piece) && setImmediate(more)))
            socket.on('drain', more)
            more()
          })
          socket.on('error', () => undefined)
          socket.resume().once('close', () => resolve(socket.bytesWritten))
        })
      }
      await push()
      const before = rss()
      for (const written of await Promise.all(Array.from({ length: 50 }, push)))
        expect(written / 1024 / 1024).toBeLessThan(20)
      // Fifty such bodies would be five gigabytes.
      expect(rss() - before).toBeLessThan(150)
      expect((await fetch(new URL('/health', url))).status).toBe(200)
    },
    60_000,
  )
})

test('HTTP-13: the time limit closes two hundred connections that send one byte per five seconds, and they delay no other client', async () => {
  // The default limits.
  const server = await startHttpApp()
  const fast = await connectWithToken(server.url, TOKEN)
  const began = performance.now()
  let open = 200
  const drips = Array.from(
    { length: open },
    () =>
      new Promise<{ said: string; after: number }>((resolve) => {
        let said = ''
        const socket = connectSocket(server.port, '127.0.0.1', () => socket.write('P'))
        let sent = 1
        const drip = setInterval(() => socket.write('POST /mcp HTTP/1.1\r\nX-Slow: '[sent++] ?? 'x'), 5_000)
        socket.setEncoding('latin1').on('data', (part) => {
          said += part
        })
        socket.on('error', () => undefined)
        socket.once('close', () => {
          clearInterval(drip)
          open--
          resolve({ said, after: performance.now() - began })
        })
      }),
  )
  const took: number[] = []
  while (open > 0) {
    const asked = performance.now()
    await fast.callTool({ name: 'probe__echo', arguments: {} })
    took.push(performance.now() - asked)
    await sleep(20)
  }
  expect(took.length).toBeGreaterThan(10)
  expect(took.sort((x, y) => x - y)[Math.floor(0.95 * took.length)]).toBeLessThan(1_000)
  for (const { said, after } of await Promise.all(drips)) {
    expect(said).toMatch(/^HTTP\/1\.1 408 /)
    expect(after).toBeGreaterThan(14_500)
  }
  // The headers arrive in time, the body does not.
  const other = await startHttpApp({ headersTimeoutMs: 500, requestTimeoutMs: 1_000 })
  const half = `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{`
  expect(await speak(other.port, half)).toMatch(/^HTTP\/1\.1 408 /)
}, 60_000)

describe('HTTP-15', () => {
  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
    'text/json',
    'application/json, text/plain',
    'application/json+x',
    '',
  ])('HTTP-15: a body of type %j gets 415, and nothing runs', async (type) => {
    const server = await startHttpApp()
    const session = await openSession(server.url)
    for (const path of ['/mcp', '/messages?sessionId=x']) {
      const headers = { ...session, 'content-type': type }
      const answer = await ask(server.url, { path, headers, body: call(1, 'probe__note') })
      expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([415, undefined])
    }
    expect(await countRuns(server)).toBe(0)
  })

  test('HTTP-15: a compressed body or another character set does not bypass the type check', async () => {
    const server = await startHttpApp()
    expect((await ask(server.url, { headers: { 'content-encoding': 'gzip' }, body: list })).status).toBe(415)
    const utf16 = Buffer.from(JSON.stringify(initialize), 'utf16le')
    expect(
      (await ask(server.url, { headers: { 'content-type': 'application/json; charset=utf-16' }, body: utf16 })).status,
    ).toBe(415)
  })

  test('HTTP-15: a foreign preflight gets 403 without an allowed origin, and an allowed one lists the headers', async () => {
    const server = await startHttpApp({ allowedOrigins: ['app.example'] })
    const asked = {
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, mcp-param-city, x-evil',
    }
    for (const { path } of routes)
      for (const origin of ['https://evil.example', 'null']) {
        const bad = await ask(server.url, { method: 'OPTIONS', path, anonymous: true, headers: { origin, ...asked } })
        expect([bad.status, bad.headers['access-control-allow-origin']]).toEqual([403, undefined])
      }
    const origin = 'https://app.example'
    const good = await ask(server.url, { method: 'OPTIONS', anonymous: true, headers: { origin, ...asked } })
    expect([good.status, good.headers['access-control-allow-origin'], good.headers.vary]).toEqual([
      204,
      origin,
      'Origin',
    ])
    expect(good.headers['access-control-allow-headers']).toBe('authorization, mcp-param-city')
    expect(good.headers).not.toHaveProperty('access-control-allow-credentials')
    expect((await ask(server.url, { body: initialize })).headers).not.toHaveProperty('access-control-allow-origin')
  })
})

test('HTTP-16: one principal gets sixteen of ten thousand streams of any kind, others get theirs, and a closed stream frees a slot', async () => {
  const BOB = 'another-token-for-bob'
  const server = await startHttpApp({ tokens: [{ token: BOB, principal: 'bob' }] })
  const session = await openSession(server.url)
  const listen = modern('sub', 'subscriptions/listen', { notifications: { toolsListChanged: true } })
  const kinds: readonly Ask[] = [listen, { method: 'GET', path: '/sse' }, { method: 'GET', headers: session }]
  const agent = new Agent({ keepAlive: true, maxSockets: 40 })
  onTestFinished(() => agent.destroy())
  const held: { destroy(): void }[] = []
  const attempt = (at: number): Promise<number> =>
    new Promise((resolve, reject) => {
      const { method = 'POST', path = '/mcp', headers = {}, body } = kinds[at % 3] as Ask
      const req = nodeRequest(new URL(path, server.url), {
        method,
        agent,
        headers: {
          accept: 'application/json, text/event-stream',
          authorization: `Bearer ${TOKEN}`,
          ...(body ? { 'content-type': 'application/json' } : {}),
          ...(headers as Record<string, string>),
        },
      })
      req.once('error', reject)
      req.once('response', (res) => {
        if (res.statusCode === 200) held.push(res)
        else res.resume()
        res.on('error', () => undefined)
        resolve(res.statusCode ?? 0)
      })
      req.end(body ? JSON.stringify(body) : undefined)
    })
  const statuses = new Map<number, number>()
  for (let at = 0; at < 10_000; at += 20)
    for (const status of await Promise.all(Array.from({ length: 20 }, (_, n) => attempt(at + n))))
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
  expect([...statuses].sort()).toEqual([
    [200, 16],
    [429, 9_984],
  ])
  const bob = await open(server.url, {
    method: 'GET',
    path: '/sse',
    anonymous: true,
    headers: { authorization: `Bearer ${BOB}` },
  })
  expect(bob.statusCode).toBe(200)
  bob.destroy()
  expect((await ask(server.url, { headers: session, body: call(1, 'probe__echo') })).status).toBe(200)
  held.shift()?.destroy()
  await expect.poll(() => attempt(1), { interval: 100 }).toBe(200)
  expect(await attempt(1)).toBe(429)
  for (const one of held) one.destroy()
}, 180_000)

describe('HTTP-17', () => {
  test('HTTP-17: the server answers 400 without a session id, and 404 if the id is unknown, malformed or belongs to another caller', async () => {
    const BOB = 'another-token-for-bob'
    const server = await startHttpApp({ tokens: [{ token: BOB, principal: 'bob' }] })
    const session = await openSession(server.url)
    const id = session['mcp-session-id']
    for (const request of [{ body: ping(1) }, { method: 'GET' }, { method: 'DELETE' }]) {
      expect((await ask(server.url, request)).status).toBe(400)
      for (const wrong of [
        'chosen-by-client',
        '',
        '../../etc',
        `${id}x`,
        id.toUpperCase(),
        'x'.repeat(8_000),
        '__proto__',
      ]) {
        const answer = await ask(server.url, { ...request, headers: { 'mcp-session-id': wrong } })
        expect([answer.status, answer.json.error?.code]).toEqual([404, -32001])
      }
      const bob = { ...request, anonymous: true, headers: { ...session, authorization: `Bearer ${BOB}` } }
      expect((await ask(server.url, bob)).status).toBe(404)
      // Knowing a session id does not replace a token.
      expect((await ask(server.url, { ...request, anonymous: true, headers: session })).status).toBe(401)
    }
    expect(
      (await ask(server.url, { body: initialize, headers: { 'mcp-session-id': 'chosen-by-client' } })).status,
    ).toBe(404)
    expect((await ask(server.url, { headers: session, body: ping(2) })).status).toBe(200)
  })

  test('HTTP-17: the server answers 404 after the session timed out', async () => {
    const clock = createManualClock(Date.now())
    const server = await startHttpApp({ sessionIdleMs: 60_000 }, {}, { clock })
    const [idle, used] = [await openSession(server.url), await openSession(server.url)]
    clock.pass(40_000)
    expect((await ask(server.url, { headers: used, body: ping(1) })).status).toBe(200)
    clock.pass(40_000)
    expect((await ask(server.url, { headers: idle, body: ping(2) })).status).toBe(404)
    expect((await ask(server.url, { headers: used, body: ping(2) })).status).toBe(200)
    expect(server.sessions().streamable).toBe(1)
  })

  test('HTTP-17: a caller at the session limit replaces its own sessions, not those of others', async () => {
    const BOB = 'another-token-for-bob'
    const server = await startHttpApp({ maxSessions: 20, tokens: [{ token: BOB, principal: 'bob' }] })
    const bob = { anonymous: true, headers: { authorization: `Bearer ${BOB}` } }
    const { headers } = await ask(server.url, { ...bob, body: initialize })
    for (let at = 0; at < 60; at++) await openSession(server.url)
    expect(server.sessions().streamable).toBe(20)
    const kept = { ...bob.headers, 'mcp-session-id': String(headers['mcp-session-id']) }
    expect((await ask(server.url, { anonymous: true, headers: kept, body: ping(1) })).status).toBe(200)
  })
})

test('HTTP-19: five hundred interleaved calls of two clients all get their own answers, in both eras', async () => {
  const BOB = 'another-token-for-bob'
  const server = await startHttpApp({ tokens: [{ token: BOB, principal: 'bob' }] })
  for (const era of ['modern', 'legacy'] as const) {
    const clients = [await connectWithToken(server.url, TOKEN, era), await connectWithToken(server.url, BOB, era)]
    const calls = Array.from({ length: 500 }, async (_, at) => {
      const nonce = `${at}-${Math.random()}`
      const result = await clients[at % 2]?.callTool({ name: 'probe__echo', arguments: { nonce } })
      expect(JSON.parse(textOf(result))).toEqual({ nonce })
    })
    await Promise.all(calls)
  }
  expect(await countRuns(server)).toBe(1_000)
}, 60_000)

test('HTTP-21: GET and DELETE of the revision without sessions get 405, and Last-Event-ID has no effect', async () => {
  const server = await startHttpApp()
  for (const method of ['GET', 'DELETE']) {
    const headers = { 'mcp-protocol-version': '2026-07-28', 'last-event-id': '7' }
    const answer = await ask(server.url, { method, headers })
    expect([answer.status, answer.headers.allow]).toEqual([405, 'POST'])
  }
  const asked = modern(1, 'tools/call', { name: 'probe__echo', arguments: { x: 1 } }, { 'last-event-id': '7' })
  const answer = await ask(server.url, asked)
  expect([answer.status, JSON.parse(textOf(answer.json.result))]).toEqual([200, { x: 1 }])
  // The 2025 era has streams: it gets a new one, and nothing of an old one.
  const session = await openSession(server.url)
  const stream = await open(server.url, { method: 'GET', headers: { ...session, 'last-event-id': '7' } })
  expect(stream.statusCode).toBe(200)
  stream.destroy()
})

describe('pages of other sites, without authentication', () => {
  const get = (url: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> =>
    fetch(new URL('/sse', url), { headers, signal })

  test('an image or script of a page opens no stream, although browsers send no Origin for it', async () => {
    const { url } = await serveHttp(place({ server: { http: { auth: 'none' } } }))
    const end = new AbortController()
    onTestFinished(() => end.abort())
    for (const site of ['cross-site', 'same-site'])
      expect((await get(url, { 'sec-fetch-site': site, accept: '*/*' }, end.signal)).status).toBe(403)
    expect((await get(url, { 'sec-fetch-site': 'none' }, end.signal)).status).toBe(200)
  })

  test('unused streams make room for a new client', async () => {
    const { url } = await serveHttp(place({ server: { http: { auth: 'none' } } }))
    const end = new AbortController()
    onTestFinished(() => end.abort())
    for (let n = 0; n < 40; n++) expect((await get(url, {}, end.signal)).status).toBe(200)
    const client = new Client({ name: 'late', version: '1' })
    await client.connect(new SSEClientTransport(new URL('/sse', url)))
    onTestFinished(() => client.close())
    for (let n = 0; n < 40; n++) await get(url, {}, end.signal)
    expect((await client.listTools()).tools.length).toBeGreaterThan(0)
  })
})
