import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import type { HttpOptions } from '../../src/server/serve-http.ts'
import type { HttpSettings } from '../../src/server/server-options.ts'
import {
  ask,
  call,
  initialize,
  LOCAL,
  modern,
  open,
  openSession,
  plainHooks,
  readUntil,
  type Started,
  speak,
  start,
  TOKEN,
  until,
} from './echo.ts'

const running: Started[] = []
async function serve(set: Partial<HttpSettings> = {}, more: Partial<HttpOptions> = {}): Promise<Started> {
  const server = await start(systemClock, { set, ...more })
  running.push(server)
  return server
}
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()))
})

describe('the router', () => {
  it.each(['/', '/metrics', '/admin', '/authorize', '/register', '/token', '/mcp/', '//mcp'])(
    'rejects %s',
    async (path) => {
      const { url } = await serve()
      for (const anonymous of [true, false])
        expect((await ask(url, { method: 'GET', path: `${url}${path}`, anonymous })).status).toBe(404)
    },
  )
})

describe('the origin check', () => {
  it.each([
    'http://localhost:5173',
    'http://127.0.0.1',
    'http://[::1]:8080',
    'https://app.example',
    'https://exact.example:8443',
    'vscode-webview://abc',
  ])('allows %s, which may read the answer', async (origin) => {
    const { url } = await serve({ allowedOrigins: ['app.example', 'https://exact.example:8443', 'vscode-webview://*'] })
    const answer = await ask(url, { headers: { origin }, body: initialize })
    expect(answer.status).toBe(200)
    expect(answer.headers['access-control-allow-origin']).toBe(origin)
    expect(answer.headers['access-control-expose-headers']).toContain('Mcp-Session-Id')
  })

  it('allows the configured hosts', async () => {
    const { url } = await serve({ allowedHosts: ['Pegboard.lan'] })
    expect((await ask(url, { headers: { host: 'pegboard.LAN:3333' }, body: initialize })).status).toBe(200)
    expect((await ask(url, { headers: { host: 'other.lan' }, body: initialize })).status).toBe(403)
  })

  it('answers a preflight of an allowed origin without a token, and of no other', async () => {
    const { url } = await serve()
    const asked = {
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, mcp-param-city, x-evil',
    }
    const good = await ask(url, {
      method: 'OPTIONS',
      anonymous: true,
      headers: { origin: 'http://localhost:1', ...asked },
    })
    expect(good.status).toBe(204)
    expect(good.headers['access-control-allow-headers']).toBe('authorization, mcp-param-city')
    expect(good.headers['access-control-allow-methods']).toBe('POST, GET, DELETE')
    const bad = await ask(url, {
      method: 'OPTIONS',
      anonymous: true,
      headers: { origin: 'https://evil.example', ...asked },
    })
    expect([bad.status, bad.headers['access-control-allow-origin']]).toEqual([403, undefined])
  })

  it('sends no CORS header to requests without an origin', async () => {
    const { url } = await serve()
    expect((await ask(url, { body: initialize })).headers).not.toHaveProperty('access-control-allow-origin')
  })
})

describe('start-up', () => {
  it.each(['0.0.0.0', '::', '192.0.2.1'])('rejects %s without authentication, naming the setting', async (host) => {
    const refused = serve({ host, auth: 'none' })
    await expect(refused).rejects.toMatchObject({
      code: 'E_CONFIG_AUTH',
      hint: 'Remove server.http.auth: "none", or listen on 127.0.0.1.',
    })
    await expect(refused).rejects.toThrow('server.http.auth is "none"')
  })

  it('fails without a token where one is required', async () => {
    await expect(serve({ host: '0.0.0.0' }, { token: undefined })).rejects.toMatchObject({ code: 'E_CONFIG_AUTH' })
    await expect(serve({}, { token: '' })).rejects.toMatchObject({ code: 'E_CONFIG_AUTH' })
  })

  it('serves everyone on this machine if configured', async () => {
    const { url } = await serve({ auth: 'none' }, { token: undefined })
    expect((await ask(url, { anonymous: true, body: initialize })).status).toBe(200)
  })

  it('names a port in use', async () => {
    const { port } = await serve()
    await expect(serve({ port })).rejects.toMatchObject({
      code: 'E_ADDRESS_UNAVAILABLE',
      message: `Port ${port} on 127.0.0.1 is in use.`,
    })
  })
})

describe('a body', () => {
  it('that turns out too long is rejected', async () => {
    const { port } = await serve()
    const head = `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`
    const chunk = `${(0x500000).toString(16)}\r\n${' '.repeat(0x500000)}\r\n`
    expect(await speak(port, head + chunk)).toMatch(/^HTTP\/1\.1 413 /)
  })

  it('is read after Expect: 100-continue', async () => {
    const { port } = await serve()
    const body = JSON.stringify(initialize)
    const head = `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`
    const said = await speak(port, head, (text) => (text.startsWith('HTTP/1.1 100') ? body : undefined))
    expect(said).toContain('HTTP/1.1 200 OK')
  })

  it('that is not JSON is called a message, because a body has no lines', async () => {
    const { url } = await serve()
    const { json } = await ask(url, { body: '{"jsonrpc"' })
    expect(json.error).toEqual({ code: -32700, message: 'Parse error: the message is not JSON' })
  })

  it.each<[string, string | Buffer, number]>([
    ['no JSON', '{"jsonrpc"', -32700],
    ['nothing', '', -32700],
    [
      'bytes that are not UTF-8',
      Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]),
      -32700,
    ],
    ['an id that is an object', '{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', -32600],
    ['an id that is null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600],
    ['an id that is a fraction', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600],
    ['an id of a mebibyte', `{"jsonrpc":"2.0","id":"${'x'.repeat(2 ** 20)}","method":"ping"}`, -32600],
    ['keys in another case', '{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"echo"}}', -32600],
    ['an empty batch', '[]', -32600],
    [
      'a batch of 101',
      JSON.stringify(Array.from({ length: 101 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' }))),
      -32600,
    ],
    ['a batch with something else', '[{"jsonrpc":"2.0","id":1,"method":"ping"},7]', -32600],
    ['a batch of the revision that has none', JSON.stringify([modern(1, 'tools/list', {}).body]), -32600],
    ['a number', '7', -32600],
  ])('with %s is rejected, and nothing runs', async (_what, body, code) => {
    const { url, echo } = await serve()
    const answer = await ask(url, { body })
    expect([answer.status, answer.json.error?.code]).toEqual([400, code])
    expect(echo.made).toEqual([])
  })
})

describe('protocol versions', () => {
  it('answers 404 for an unknown method, in the revision that requires it', async () => {
    const { url } = await serve()
    const answer = await ask(url, modern(1, 'no/such', {}))
    expect([answer.status, answer.json.error?.code]).toEqual([404, -32601])
  })
})

describe('a request without a session', () => {
  it('gets its own server instance, which is disposed afterwards', async () => {
    const { url, echo } = await serve()
    for (const text of ['one', 'two']) {
      const answer = await ask(url, modern(text, 'tools/call', { name: 'echo', arguments: { text } }))
      expect(answer.json.id).toBe(text)
      expect(answer.json.result).toMatchObject({ content: [{ type: 'text', text }], resultType: 'complete' })
    }
    expect(echo.made).toEqual([
      { era: 'modern', identity: LOCAL },
      { era: 'modern', identity: LOCAL },
    ])
    await until(() => echo.disposed() === 2)
  })

  it('is answered with a stream if there is progress', async () => {
    const { url } = await serve()
    const request = modern(1, 'tools/call', { name: 'steps', arguments: { text: 'done' } })
    const answer = await ask(url, request)
    expect(answer.headers['content-type']).toBe('text/event-stream')
    expect(answer.text).toMatch(/notifications\/progress.*"text":"done"/s)
  })

  it('is cancelled when the client disconnects', async () => {
    const { url, echo } = await serve()
    const request = modern(1, 'tools/call', { name: 'wait', arguments: { ms: 60_000 } })
    const gone = new AbortController()
    const pending = fetch(new URL('/mcp', url), {
      method: 'POST',
      headers: {
        ...(request.headers as Record<string, string>),
        authorization: `Bearer ${TOKEN}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify(request.body),
      signal: gone.signal,
    })
    await until(() => echo.servers.length === 1)
    gone.abort()
    await expect(pending).rejects.toThrow()
    await until(() => echo.aborted() === 1 && echo.disposed() === 1)
  })

  it('never reveals internal errors', async () => {
    const { url, logged } = await serve(
      {},
      {
        factory: () => {
          throw new Error('secret detail at /etc/passwd')
        },
      },
    )
    const answers = [
      await ask(url, modern(1, 'tools/list', {})),
      await ask(url, { body: initialize }),
      await ask(url, { method: 'GET', path: '/sse' }),
    ]
    for (const { status, text } of answers) {
      expect(status).toBe(500)
      expect(text).not.toMatch(/secret|passwd|\bat /)
    }
    expect(logged.join('\n')).toContain('secret detail')
  })
})

describe('streams', () => {
  it('get the notifications they subscribed to', async () => {
    let tell = (): void => undefined
    const { url } = await serve(
      {},
      {
        modern: {
          ...plainHooks,
          listening(_identity, _meta, notify) {
            tell = () => notify.toolsChanged()
            return () => undefined
          },
        },
      },
    )
    const { body, headers } = modern('sub', 'subscriptions/listen', { notifications: { toolsListChanged: true } })
    const res = await open(url, { ...(headers ? { headers } : {}), body })
    expect(await readUntil(res, (text) => text.includes('acknowledged'))).toContain('"toolsListChanged":true')
    tell()
    expect(await readUntil(res, (text) => text.includes('list_changed'))).toContain('notifications/tools/list_changed')
    res.destroy()
  })
})

describe('closing', () => {
  it('lets a call finish, rejects new ones, and ends the streams', async () => {
    const server = await start(systemClock)
    const session = await openSession(server.url)
    const listening = await open(server.url, { method: 'GET', headers: session })
    const waiting = ask(server.url, { headers: session, body: call(1, 'wait', { ms: 200, text: 'late' }) })
    await new Promise((resolve) => setTimeout(resolve, 50))
    const closed = server.close(5_000)
    await expect(ask(server.url, { headers: session, body: call(2, 'echo') })).rejects.toThrow('ECONNREFUSED')
    expect((await waiting).text).toContain('"text":"late"')
    await closed
    for await (const _ of listening) {
      // Only the end of the stream.
    }
    expect(server.echo.disposed()).toBe(1)
  })

  it('is reported to a request that was arriving', async () => {
    const server = await start(systemClock)
    const session = await openSession(server.url)
    const waiting = ask(server.url, { headers: session, body: call(1, 'wait', { ms: 300 }) })
    const said = new Promise<string>((resolve) => {
      const socket = connectSocket(server.port, '127.0.0.1', () =>
        socket.write('GET /mcp HTTP/1.1\r\nHost: localhost\r\n'),
      )
      setTimeout(() => socket.write(`Authorization: Bearer ${TOKEN}\r\n\r\n`), 150)
      socket.once('data', (part) => resolve(part.toString()))
    })
    await new Promise((resolve) => setTimeout(resolve, 50))
    const closed = server.close(5_000)
    expect(await said).toMatch(/^HTTP\/1\.1 503 .*E_SHUTTING_DOWN/s)
    expect((await waiting).status).toBe(200)
    await closed
  })

  it('does not wait forever, and may be called twice', async () => {
    const server = await start(systemClock)
    const session = await openSession(server.url)
    const hanging = ask(server.url, { headers: session, body: call(1, 'wait', { ms: 60_000 }) })
    await until(() => server.echo.waits() === 1)
    await Promise.all([server.close(100), server.close()])
    expect((await hanging).json.error).toEqual({ code: -32000, message: 'The session has ended' })
    expect(server.echo.aborted()).toBe(1)
  })
})

describe('real clients', () => {
  it('of the current SDK speak the 2026 revision', async () => {
    const { url, echo } = await serve()
    const client = await modernClient(url)
    expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28')
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['echo', 'steps', 'ask', 'wait'])
    expect(textOf(await client.callTool({ name: 'echo', arguments: { text: 'héllo' } }))).toBe('héllo')
    await client.close()
    expect(echo.made.every(({ era }) => era === 'modern')).toBe(true)
  })

  it('of the current SDK speak the 2025 revision', async () => {
    const { url, echo } = await serve()
    const client = new Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} } })
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept' as const, content: { color: 'green' } }))
    const seen: number[] = []
    await client.connect(
      new StreamableHTTPClientTransport(new URL('/mcp', url), {
        requestInit: { headers: { authorization: `Bearer ${TOKEN}` } },
      }),
    )
    expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25')
    expect(
      textOf(
        await client.callTool(
          { name: 'steps', arguments: { text: 'x' } },
          { onprogress: ({ progress }) => seen.push(progress) },
        ),
      ),
    ).toBe('x')
    expect(textOf(await client.callTool({ name: 'ask', arguments: {} }))).toBe(
      '{"action":"accept","content":{"color":"green"}}',
    )
    await client.close()
    expect(echo.made).toMatchObject([
      { era: 'legacy', identity: LOCAL, sessionId: expect.stringMatching(/^[\w-]{32}$/) },
    ])
  })

  it('of the previous SDK do too, and get change notifications', async () => {
    const { url, echo } = await serve()
    const client = new OldClient({ name: 'old', version: '1' }, { capabilities: {} })
    let changes = 0
    client.fallbackNotificationHandler = async ({ method }) => {
      if (method === 'notifications/tools/list_changed') changes++
    }
    const transport = new OldTransport(new URL('/mcp', url), {
      requestInit: { headers: { authorization: `Bearer ${TOKEN}` } },
    })
    await client.connect(transport as never)
    expect((await client.listTools()).tools).toHaveLength(4)
    expect(textOf(await client.callTool({ name: 'steps', arguments: { text: 'x' } }))).toBe('x')
    await until(() => {
      void echo.servers[0]?.sendToolListChanged()
      return changes > 0
    })
    await transport.terminateSession()
    await client.close()
    await until(() => echo.disposed() === 1)
  })

  it('cancel a call with a notification', async () => {
    const { url, echo } = await serve()
    const client = new OldClient({ name: 'old', version: '1' }, { capabilities: {} })
    await client.connect(
      new OldTransport(new URL('/mcp', url), {
        requestInit: { headers: { authorization: `Bearer ${TOKEN}` } },
      }) as never,
    )
    const stop = new AbortController()
    const waiting = client.callTool({ name: 'wait', arguments: { ms: 60_000 } }, undefined, { signal: stop.signal })
    await until(() => echo.waits() === 1)
    stop.abort()
    await expect(waiting).rejects.toThrow()
    await until(() => echo.aborted() === 1)
    expect(textOf(await client.callTool({ name: 'echo', arguments: { text: 'on' } }))).toBe('on')
    await client.close()
  })
})

async function modernClient(url: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await client.connect(
    new StreamableHTTPClientTransport(new URL('/mcp', url), {
      requestInit: { headers: { authorization: `Bearer ${TOKEN}` } },
    }),
  )
  return client
}

const textOf = (result: unknown): unknown => (result as { content: Array<{ text?: string }> }).content[0]?.text

describe('connections that send no request', () => {
  it('do not block others; the longest-waiting ones are closed', async () => {
    const { url } = await serve({ maxConnections: 20 })
    const port = Number(new URL(url).port)
    const sockets: Socket[] = []
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    let closed = 0
    for (let n = 0; n < 30; n++) {
      const socket = connectSocket(port, '127.0.0.1')
      sockets.push(socket)
      socket.on('error', () => undefined).once('close', () => closed++)
      await once(socket, 'connect')
      socket.write('POST /mcp HTTP/1.1\r\nHost: 127')
    }
    await until(() => closed === 20)
    expect(sockets.findIndex(({ destroyed }) => !destroyed)).toBe(20)
    expect((await ask(url, { body: initialize })).status).toBe(200)
  })
})
