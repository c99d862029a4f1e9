import { describe, expect, test } from 'vitest'
import { ask, call, initialize, modern, openSession, speak, TOKEN } from '../server/echo.ts'
import { countRuns, type HttpApp, startHttpApp } from './http-app.ts'

const AUTH = `Authorization: Bearer ${TOKEN}\r\n`
const note = JSON.stringify(modern(7, 'tools/call', { name: 'probe__note', arguments: {} }).body)
const NOTE_HEADERS = 'Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: probe__note\r\n'
const JSON_HEADERS = 'Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n'
/** A complete request that would run a tool, for places where it must not be parsed as a request. */
const inner = `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${AUTH}${JSON_HEADERS}${NOTE_HEADERS}Content-Length: ${note.length}\r\n\r\n${note}`
const head = (...lines: string[]): string =>
  `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_HEADERS}${lines.map((line) => `${line}\r\n`).join('')}`

/** A request that follows on the same connection: it is answered if the connection stays open, and ends it. */
const LAST = 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'

/** The status of every response on one connection. */
async function said(server: HttpApp, bytes: string): Promise<number[]> {
  const text = await speak(server.port, bytes)
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
}
/** Short, so that idle connections end within the test. */
const hasty = (): Promise<HttpApp> => startHttpApp({ headersTimeoutMs: 1_500, requestTimeoutMs: 1_500 })

describe('an ambiguous request', () => {
  test.each<[string, string]>([
    ['a length and chunks', `${head('Content-Length: 4', 'Transfer-Encoding: chunked')}\r\n0\r\n\r\n${inner}`],
    ['chunks and a length', `${head('Transfer-Encoding: chunked', 'Content-Length: 4')}\r\n0\r\n\r\n${inner}`],
    ['two lengths', `${head('Content-Length: 0', `Content-Length: ${inner.length}`)}\r\n${inner}`],
    ['two lengths in one', `${head(`Content-Length: 0, ${inner.length}`)}\r\n${inner}`],
    ['a length with a sign', `${head('Content-Length: +0')}\r\n${inner}`],
    ['a negative length', `${head('Content-Length: -1')}\r\n${inner}`],
    ['a length in hexadecimal', `${head('Content-Length: 0x0')}\r\n${inner}`],
    ['an empty length', `${head('Content-Length:')}\r\n${inner}`],
    ['chunks that are not the last coding', `${head('Transfer-Encoding: chunked, identity')}\r\n0\r\n\r\n${inner}`],
    ['a coding that only looks like chunks', `${head('Transfer-Encoding: xchunked')}\r\n0\r\n\r\n${inner}`],
    ['a coding behind a control character', `${head('Transfer-Encoding: \x0bchunked')}\r\n0\r\n\r\n${inner}`],
    ['a blank before the colon', `${head('Transfer-Encoding : chunked')}\r\n0\r\n\r\n${inner}`],
    ['a folded header', `${head('Transfer-Encoding:\r\n chunked')}\r\n0\r\n\r\n${inner}`],
    ['a chunk length with a sign', `${head('Transfer-Encoding: chunked')}\r\n+0\r\n\r\n${inner}`],
    ['a chunk length that overflows', `${head('Transfer-Encoding: chunked')}\r\nfffffffffffffffff\r\n\r\n${inner}`],
    ['a chunk that ends in a bare line feed', `${head('Transfer-Encoding: chunked')}\r\n1\nx\n0\n\n${inner}`],
    ['a header that ends in a bare return', `${head('X: y\rContent-Length: 0')}\r\n${inner}`],
    ['a header name with a null', `${head('Con\0tent-Length: 0')}\r\n${inner}`],
  ])('with %s is rejected as a whole, and nothing runs', async (_what, bytes) => {
    const server = await hasty()
    const statuses = await said(server, bytes + LAST)
    expect(statuses).toHaveLength(1)
    expect(statuses[0]).toBeGreaterThanOrEqual(400)
    expect(await countRuns(server)).toBe(0)
    // The same inner request is accepted if it is sent as a request.
    expect((await said(server, inner + LAST))[0]).toBe(200)
    expect(await countRuns(server)).toBe(1)
  })

  test.each([
    [
      'refused for its token',
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${JSON_HEADERS}Content-Length: ${inner.length}\r\n\r\n${inner}`,
      401,
    ],
    [
      'refused for its path',
      `POST /nothing HTTP/1.1\r\nHost: localhost\r\n${AUTH}${JSON_HEADERS}Content-Length: ${inner.length}\r\n\r\n${inner}`,
      404,
    ],
    [
      'refused for its type',
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${AUTH}Content-Type: text/plain\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
      415,
    ],
    [
      'of a verb that has none',
      `GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
      200,
    ],
  ])('with another request as its body, and which is %s, counts as one request', async (_what, bytes, status) => {
    const server = await hasty()
    expect(await said(server, bytes + LAST)).toEqual([status, 200])
    expect(await countRuns(server)).toBe(0)
  })

  test('that is two requests gets two answers, and the token of the first does not apply to the second', async () => {
    const server = await hasty()
    const second = inner.replace(AUTH, '')
    expect(await said(server, inner + second + LAST)).toEqual([200, 401, 200])
    expect(await countRuns(server)).toBe(1)
  })
})

describe('a repeated header', () => {
  test.each([
    ['Host: evil.example', [400, 403]],
    [`Authorization: Bearer ${TOKEN}`, [400]],
    ['Authorization: Bearer x', [400]],
    ['Content-Type: text/plain', [415]],
    ['Mcp-Session-Id: x', [400]],
    ['Mcp-Protocol-Version: 2025-11-25', [400]],
    ['Mcp-Name: probe__note', [400]],
    ['mCP-mETHOD: tools/list', [400]],
  ])('is rejected, because a proxy may have read the other one: %s', async (line, statuses) => {
    const server = await hasty()
    const twice = `${AUTH}Mcp-Session-Id: y\r\n${NOTE_HEADERS}${line}`
    for (const lines of [`${AUTH}Mcp-Session-Id: y\r\n${NOTE_HEADERS}${line}`, twice])
      expect(statuses).toContain(
        (await said(server, `${head(...lines.split('\r\n'), `Content-Length: ${note.length}`)}\r\n${note}`))[0],
      )
    expect(await countRuns(server)).toBe(0)
  })

  test('is found among three thousand others, also if it decides about access', async () => {
    const server = await startHttpApp({ maxHeaderBytes: 64 * 1024 })
    const many = 'a:b\r\n'.repeat(3_000)
    const send = async (lines: string): Promise<number | undefined> =>
      (
        await said(
          server,
          `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${many}${lines}Connection: close\r\n${JSON_HEADERS}Content-Length: ${note.length}\r\n\r\n${note}`,
        )
      )[0]
    expect(await send(`${AUTH}${NOTE_HEADERS}Origin: https://evil.example\r\n`)).toBe(403)
    expect(await send(`${AUTH}${AUTH}${NOTE_HEADERS}`)).toBe(400)
    expect(await send(NOTE_HEADERS)).toBe(401)
    expect(await countRuns(server)).toBe(0)
    expect(await send(`${AUTH}${NOTE_HEADERS}`)).toBe(200)
  })
})

describe('a request line', () => {
  test.each([
    ['that names another server as a whole address', 'POST http://evil.example/mcp HTTP/1.1', [403, 404]],
    ['that names us as a whole address', 'POST http://localhost/mcp HTTP/1.1', [404]],
    ['that names an open route as a whole address', 'POST http://localhost/health HTTP/1.1', [404]],
    ['that names everything', 'OPTIONS * HTTP/1.1', [404]],
    ['that names no path', 'POST mcp HTTP/1.1', [400, 404]],
    ['with a fragment', 'POST /mcp#/health HTTP/1.1', [400, 404]],
    ['with a blank in its path', 'POST /mcp /health HTTP/1.1', [400]],
    ['of a version that is none', 'POST /mcp HTTP/9.9', [400, 505]],
    ['of HTTP/2', 'PRI * HTTP/2.0', [400, 404]],
    ['of a verb that is none', 'BREW /mcp HTTP/1.1', [400]],
  ])('%s is rejected, with a token too', async (_what, line, statuses) => {
    const server = await hasty()
    for (const token of ['', AUTH]) {
      const bytes = `${line}\r\nHost: localhost\r\n${token}${JSON_HEADERS}${NOTE_HEADERS}Content-Length: ${note.length}\r\nConnection: close\r\n\r\n${note}`
      expect(statuses).toContain((await said(server, bytes))[0])
    }
    expect(await countRuns(server)).toBe(0)
  })

  test('of HTTP/1.0 without a Host gets 403, of HTTP/1.1 gets 400, and so does an empty Host', async () => {
    const server = await hasty()
    const rest = `${AUTH}${JSON_HEADERS}Content-Length: ${note.length}\r\n\r\n${note}`
    expect(await said(server, `POST /mcp HTTP/1.0\r\n${rest}`)).toEqual([403])
    expect(await said(server, `POST /mcp HTTP/1.1\r\n${rest}`)).toEqual([400])
    expect(await said(server, `POST /mcp HTTP/1.1\r\nHost:\r\n${rest}`)).toEqual([403])
    expect(await said(server, `POST /mcp HTTP/1.0\r\nHost: localhost\r\n${rest.replace(AUTH, '')}`)).toEqual([401])
    expect(await countRuns(server)).toBe(0)
  })

  test('that requests a tunnel ends the connection, and Pegboard connects to nothing', async () => {
    const server = await hasty()
    for (const target of ['127.0.0.1:22', 'localhost:80', '169.254.169.254:80'])
      expect(await speak(server.port, `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${AUTH}\r\n`)).toBe('')
  })

  test('that requests a protocol upgrade is handled as a plain request', async () => {
    const server = await hasty()
    for (const protocol of ['websocket', 'h2c']) {
      const asked = `GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: ${protocol}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n`
      expect(await said(server, `${asked}\r\n`)).toEqual([401])
      expect(await said(server, `${asked}${AUTH}Accept: text/event-stream\r\n\r\n`)).toEqual([400])
    }
  })
})

describe('a foreign header', () => {
  test.each([
    'X-Original-URL: /health',
    'X-Rewrite-URL: /health',
    'X-Forwarded-Uri: /health',
    'X-HTTP-Method-Override: GET',
    'X-Forwarded-For: 127.0.0.1',
    'X-Forwarded-Host: localhost',
    'Forwarded: for=127.0.0.1;host=localhost',
    `Proxy-Authorization: Bearer ${TOKEN}`,
    `Cookie: token=${TOKEN}`,
    `X-Api-Key: ${TOKEN}`,
  ])('changes neither token nor path: %s', async (line) => {
    const server = await hasty()
    expect(
      await said(server, `${head(line, 'Connection: close', `Content-Length: ${note.length}`)}\r\n${note}`),
    ).toEqual([401])
    const foreign = `GET /health HTTP/1.1\r\nHost: evil.example\r\n${line}\r\nConnection: close\r\n\r\n`
    expect(await said(server, foreign)).toEqual([403])
    expect(await countRuns(server)).toBe(0)
  })

  test('after the body (a trailer) has no effect as token or Origin', async () => {
    const server = await hasty()
    const chunked = (trailer: string, ...lines: string[]): string =>
      `${head('Transfer-Encoding: chunked', 'Connection: close', 'Trailer: Authorization, Origin', ...lines)}\r\n${note.length.toString(16)}\r\n${note}\r\n0\r\n${trailer}\r\n`
    expect(await said(server, chunked(AUTH))).toEqual([401])
    const own = [...AUTH.split('\r\n'), ...NOTE_HEADERS.split('\r\n')].filter((line) => line !== '')
    expect(await said(server, chunked('Authorization: Bearer x\r\n', ...own))).toEqual([200])
  })

  test('Expect gets 417 for an unknown value, and waits for the token otherwise', async () => {
    const server = await hasty()
    expect(
      (
        await said(
          server,
          `${head('Expect: 200-maybe', `Content-Length: ${note.length}`, 'Connection: close')}\r\n${note}`,
        )
      )[0],
    ).toBe(417)
    // A client that will be rejected gets no 100 Continue.
    expect(await said(server, `${head('Expect: 100-continue', 'Content-Length: 1000')}\r\n`)).toEqual([401])
  })

  test('with the token scheme is case-insensitive', async () => {
    const server = await startHttpApp()
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'bEARER ']) {
      const headers = { authorization: `${scheme} ${TOKEN}` }
      expect((await ask(server.url, { anonymous: true, headers, body: initialize })).status).toBe(200)
    }
  })

  test('that is too long for a token gets 431, and the next request is served', async () => {
    const server = await startHttpApp()
    for (const bytes of [20_000, 200_000]) {
      const said = await speak(server.port, `${head(`Authorization: Bearer ${'x'.repeat(bytes)}`)}\r\n`)
      expect(said).toMatch(/^HTTP\/1\.1 431 /)
    }
    expect((await ask(server.url, { body: initialize })).status).toBe(200)
  })
})

describe('a JSON body that is not a message', () => {
  const start = '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"probe__note","arguments":{}},"id":'
  test.each([
    ['an id of a mebibyte', `${start}"${'x'.repeat(2 ** 20)}"}`],
    ['an id that no number holds', `${start}1e400}`],
    ['an id that would come back as another', `${start}9007199254740993}`],
    ['an id that is a fraction', `${start}1.5}`],
    ['an id that is a list', `${start}[1]}`],
    ['an id that is an object', `${start}{"toString":1}}`],
    ['an id that is true', `${start}true}`],
    ['a hundred thousand levels', `${start}1,"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
    ['keys in another case', `{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"probe__note"}}`],
    [
      'a letter that only looks like another',
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","param\u017f":{"name":"probe__note"}}`,
    ],
    ['a prototype', `${start}1,"__proto__":{"method":"tools/call"}}`],
    ['something behind it', `${start}1}{}`],
    ['a method that comes twice', `{"method":"ping",${start.slice(1)}1}`],
    ['an id that comes twice', `${start}1,"id":2}`],
    ['the name of another tool before its own', `${start.replace('"name":', '"name":"probe__echo","name":')}1}`],
    ['a list of one of these', `[${start}1,"id":2}]`],
    ['a list of a hundred thousand levels', `[${start}1,"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}]`],
    ['a mark of byte order', `\uFEFF${start}1}`],
  ])('with %s is rejected, nothing runs, and the next request is served', async (_what, body) => {
    const server = await startHttpApp()
    const session = await openSession(server.url)
    for (const headers of [session, { ...modern(1, 'tools/call', { name: 'probe__note' }).headers }]) {
      const answer = await ask(server.url, { headers, body })
      expect(answer.status === 400 || answer.json.error !== undefined).toBe(true)
      expect(answer.text.length).toBeLessThan(2_000)
    }
    expect(await countRuns(server)).toBe(0)
    expect((await ask(server.url, { headers: session, body: call(3, 'probe__note') })).status).toBe(200)
  })

  test('does not pollute object prototypes', async () => {
    const server = await startHttpApp()
    const session = await openSession(server.url)
    const body =
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe__echo","arguments":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}}}'
    await ask(server.url, { headers: session, body })
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    expect((await ask(server.url, { headers: session, body: call(2, 'probe__echo') })).status).toBe(200)
  })
})

describe('a profile in the address', () => {
  test.each(['..', '.', '__proto__', 'constructor', 'toString', 'team%00', 'team/', 'TEAM', 'default.'])(
    'that does not exist gets 404 with a token, and 401 or 404 without: %s',
    async (name) => {
      const server = await startHttpApp({}, { profiles: { team: { use: ['hello'] } } })
      const path = `POST /mcp/${name} HTTP/1.1\r\nHost: localhost\r\n`
      const rest = `${JSON_HEADERS}Content-Length: ${note.length}\r\nConnection: close\r\n\r\n${note}`
      expect(await said(server, `${path}${AUTH}${rest}`)).toEqual([404])
      expect([401, 404]).toContain((await said(server, `${path}${rest}`))[0])
      expect(await countRuns(server)).toBe(0)
    },
  )

  test('is the profile of the token if that has one, whatever the request claims', async () => {
    const token = 'a-token-for-the-team'
    const server = await startHttpApp(
      { tokens: [{ token, principal: 'ann', profile: 'team' }] },
      { profiles: { team: { use: ['hello'] } } },
    )
    const request = modern(1, 'tools/call', { name: 'probe__note', arguments: {} })
    const { body } = request as { body: { params: { _meta: Record<string, unknown> } } }
    body.params._meta['pegboard/profile'] = 'default'
    const headers = { ...request.headers, authorization: `Bearer ${token}` }
    for (const path of ['/mcp', '/mcp/team', '/mcp/default'])
      await ask(server.url, { path, anonymous: true, headers, body })
    expect((await ask(server.url, { path: '/mcp/default', anonymous: true, headers, body })).status).toBe(403)
    expect(await countRuns(server)).toBe(0)
  })
})
