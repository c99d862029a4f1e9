import { getEventListeners } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  request as requestTo,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { noRelay } from '../../src/core/tool.ts'
import { createHttpClient } from '../../src/upstream/http-client.ts'
import { serverRules } from '../../src/upstream/server-network-rules.ts'
import { keeping, modern, resultOf, until, withHttpServer, withServers } from './host.ts'

const anywhere = serverRules({ allowPrivate: true, where: 'mcpServers.x' })

async function listening(answer: RequestListener, test: (origin: string) => Promise<void>): Promise<void> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await test(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** A 2025-era endpoint whose sessions can be dropped. */
function sessionful() {
  const sessions = new Set<string>()
  let calls = 0
  let opened = 0
  const answer = async (request: IncomingMessage, response: Parameters<RequestListener>[1]): Promise<void> => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const message = JSON.parse(await readText(request))
    const send = (result: object, headers = {}): void => {
      response.writeHead(200, { 'content-type': 'application/json', ...headers })
      response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }))
    }
    if (message.method === 'initialize') {
      const session = `s${++opened}`
      sessions.add(session)
      return send(
        {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'sessionful', version: '1' },
        },
        { 'mcp-session-id': session },
      )
    }
    if (!sessions.has(String(request.headers['mcp-session-id'])))
      return void response
        .writeHead(message.method === 'server/discover' ? 400 : 404)
        .end('{"error":"no such session"}')
    if (message.id === undefined) return void response.writeHead(202).end()
    if (message.method === 'tools/list')
      return send({ tools: [{ name: 'count', description: 'Counts calls.', inputSchema: { type: 'object' } }] })
    return send({ content: [{ type: 'text', text: String(++calls) }] })
  }
  return {
    answer: ((request, response) => void answer(request, response)) as RequestListener,
    forget: () => sessions.clear(),
    opened: () => opened,
  }
}

/** A request whose body was read already, to be answered by another handler. */
const withBody = ({ method, headers }: IncomingMessage, body: string): IncomingMessage =>
  Object.assign(Readable.from([body]), { method, headers }) as never

describe('a server over HTTP', () => {
  it('that lost the session is connected again, and the rejected call is repeated once', () => {
    const server = sessionful()
    return listening(server.answer, (origin) =>
      withServers({ web: { url: `${origin}/mcp` } }, async ({ text, upstreams }) => {
        expect(await text('mcp_web.count')).toBe('1')
        // A lost session is not a failure, however often it happens.
        for (const count of ['2', '3', '4']) {
          server.forget()
          expect(await text('mcp_web.count')).toBe(count)
        }
        expect(server.opened()).toBe(4)
        expect(upstreams.status()).toMatchObject([{ state: 'ready', transport: 'http', era: 'legacy' }])
      }),
    )
  })

  it.each(['http', 'sse'])('is not followed to its redirects (%s) [UPS-21]', (type) =>
    listening(
      (_request, response) => void response.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
      (origin) =>
        withServers(
          { web: { type, url: `${origin}/mcp` } },
          async ({ upstreams }) => {
            await until(() => upstreams.status()[0]?.state === 'failing')
            expect(upstreams.status()[0]?.reason).toBe(
              'it redirects to another address (HTTP 302), which is not followed',
            )
          },
          { wait: false },
        ),
    ),
  )

  it.each([
    ['redirects', 302, {}, 'E_REDIRECT_BLOCKED', 'it redirects to another address (HTTP 302), which is not followed'],
    ['wants a login', 401, {}, 'E_AUTH_REQUIRED', 'it requires authorization (HTTP 401)'],
    [
      'refuses its key',
      403,
      { headers: { 'x-key': 'of-last-year' } },
      'E_AUTH_REQUIRED',
      'it rejects the value of mcpServers.web.headers (HTTP 403)',
    ],
  ])('that is known and now %s is reported as such to every call', async (_what, status, entry, code, why) => {
    const manifests = keeping()
    const server = sessionful()
    let closed = false
    const answer: RequestListener = (request, response) =>
      closed
        ? void response.writeHead(status, { location: 'http://127.0.0.1:9/' }).end()
        : server.answer(request, response)
    await listening(answer, async (origin) => {
      const servers = { web: { url: `${origin}/mcp`, ...entry } }
      await withServers(servers, async () => undefined, { manifests })
      closed = true
      await withServers(
        servers,
        async ({ call, upstreams }) => {
          for (let n = 0; n < 3; n++)
            await expect(call('mcp_web.count')).rejects.toMatchObject({ code, message: `web: ${why}.` })
          expect(upstreams.status()).toMatchObject([{ state: 'failing', reason: why }])
        },
        { manifests, wait: false },
      )
    })
  })

  it('that is not found at its address is reported with the usual cause', () =>
    listening(
      (_request, response) => void response.writeHead(404).end(),
      (origin) =>
        withServers(
          { web: { url: origin } },
          async ({ upstreams }) => {
            await until(() => upstreams.status()[0]?.state === 'failing')
            expect(upstreams.status()[0]?.reason).toBe('HTTP 404; check the path of its address, which is usually /mcp')
          },
          { wait: false },
        ),
    ))

  it('that requires authorization is reported', () =>
    listening(
      (_request, response) => void response.writeHead(401).end(),
      (origin) =>
        withServers(
          { web: { url: origin } },
          async ({ upstreams }) => {
            await until(() => upstreams.status()[0]?.state === 'failing')
            expect(upstreams.status()[0]?.reason).toBe('it requires authorization (HTTP 401)')
          },
          { wait: false },
        ),
    ))

  it('with an invalid header is reported without its value', () =>
    withServers(
      {
        web: {
          url: 'http://127.0.0.1:9/',
          allowPrivate: true,
          start: 'background',
          headers: { 'x-key': 'top\nsecret' },
        },
      },
      async ({ upstreams, logged }) => {
        await until(() => upstreams.status()[0]?.state === 'failing')
        expect(upstreams.status()[0]?.reason).toBe(
          'its header x-key has characters that no header can carry (mcpServers.web.headers)',
        )
        expect(JSON.stringify([upstreams.status(), logged])).not.toMatch(/top|secret/)
      },
      { wait: false },
    ))

  it('gets the headers of its entry', () => {
    const seen: unknown[] = []
    const server = sessionful()
    return listening(
      (request, response) => {
        seen.push(request.headers['x-key'])
        server.answer(request, response)
      },
      (origin) =>
        withServers({ web: { url: origin, headers: { 'X-Key': 'k' } } }, async ({ text }) => {
          await text('mcp_web.count')
          expect(new Set(seen)).toEqual(new Set(['k']))
        }),
    )
  })
})

/** A 2025-era endpoint whose calls never end: `hang` sends nothing, `flood` one endless event. */
function endless() {
  const heard = { open: 0, cancelled: 0, bytes: 0 }
  const answer = async (request: IncomingMessage, response: Parameters<RequestListener>[1]): Promise<void> => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method, params } = JSON.parse(await readText(request))
    const send = (body: object): void => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
    }
    if (method === 'notifications/cancelled') heard.cancelled++
    if (id === undefined) return void response.writeHead(202).end()
    if (method === 'server/discover') return send({ error: { code: -32601, message: 'no' } })
    const inputSchema = { type: 'object' }
    if (method === 'initialize')
      return send({
        result: {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: 'endless', version: '1' },
        },
      })
    if (method === 'tools/list')
      return send({ result: { tools: ['hang', 'flood'].map((name) => ({ name, inputSchema })) } })
    heard.open++
    response.once('close', () => heard.open--)
    if (params.name === 'hang') return
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: ')
    const pour = (): void => {
      if (response.destroyed) return
      heard.bytes += 10_000
      response.write('x'.repeat(10_000))
      setTimeout(pour, 5)
    }
    pour()
  }
  return { heard, answer: ((request, response) => void answer(request, response)) as RequestListener }
}

describe('an abandoned call over HTTP', () => {
  it.each(['hang', 'flood'])('closes its request, and a 2025-era server is also notified: %s', (name) => {
    const { heard, answer } = endless()
    return listening(answer, (origin) =>
      withServers({ web: { url: `${origin}/mcp`, timeoutMs: 300 } }, async ({ call, upstreams }) => {
        const abort = new AbortController()
        const cancelled = call(`mcp_web.${name}`, {}, { signal: abort.signal })
        const timedOut = call(`mcp_web.${name}`)
        await until(() => heard.open === 2)
        abort.abort()
        await expect(cancelled).rejects.toMatchObject({ code: 'E_CANCELLED' })
        await expect(timedOut).rejects.toMatchObject({ code: 'E_TIMEOUT' })
        await until(() => heard.open === 0 && heard.cancelled === 2)
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
      }),
    )
  })
})

describe('a 2026-07-28 server over HTTP', () => {
  const serve = (test: (url: string) => Promise<void>): Promise<void> =>
    withHttpServer(modern('--http'), /port (\d+)/, (port) => test(`http://127.0.0.1:${port}/mcp`))

  it('gets marked arguments as headers, and its tools with invalid marks are skipped', () =>
    serve((url) =>
      withServers({ web: { url } }, async ({ text, catalog, logged }) => {
        expect(JSON.parse(await text('mcp_web.get_param', { region: 'Zürich' }))).toMatchObject({
          args: { region: 'Zürich' },
        })
        expect(catalog.snapshot().byId.has('mcp_web.bad_param')).toBe(false)
        expect(logged).toContainEqual(
          expect.objectContaining({ level: 'warn', message: expect.stringContaining('"bad_param"') }),
        )
      }),
    ))

  it('notices a cancelled call by its closed stream', () =>
    serve((url) =>
      withServers({ web: { url } }, async ({ call, text }) => {
        const abort = new AbortController()
        const waiting = call('mcp_web.wait', {}, { signal: abort.signal })
        setTimeout(() => abort.abort(), 50)
        await expect(waiting).rejects.toMatchObject({ code: 'E_CANCELLED' })
        let count = '0'
        for (let tries = 0; count === '0' && tries < 50; tries++) count = await text('mcp_web.count_aborted')
        expect(count).toBe('1')
      }),
    ))

  /** A proxy that delays subscriptions longer than calls. */
  const lateToListen =
    (origin: string, streams = new Set<ServerResponse>()): RequestListener =>
    (request, response) => {
      const headers = { ...request.headers, host: new URL(origin).host }
      const onwards = (): void => {
        const passed = requestTo(`${origin}${request.url}`, { method: request.method, headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 500, answer.headers)
          response.flushHeaders()
          answer.pipe(response)
        })
        passed.on('error', () => response.destroy())
        response.on('close', () => passed.destroy())
        request.pipe(passed)
      }
      if (request.headers['mcp-method'] !== 'subscriptions/listen') return onwards()
      streams.add(response)
      response.on('close', () => streams.delete(response))
      setTimeout(onwards, 100)
    }

  it('notifies about a resource from the acknowledgement on, whatever is subscribed later', () => {
    const heard: string[] = []
    return serve((url) =>
      listening(lateToListen(new URL(url).origin), (origin) =>
        withServers(
          { web: { url: `${origin}/mcp` } },
          async ({ call, catalog }) => {
            const { endpoints } = catalog.snapshot().owners.get('mcp_web') ?? {}
            for (const uri of ['memo://one', 'memo://two']) {
              await endpoints?.request('resources/subscribe', { uri }, noRelay, new AbortController().signal)
              for (const followed of new Set(['memo://one', uri])) {
                await call('mcp_web.touch', { uri: followed })
                await until(() => heard.includes(followed))
              }
              heard.length = 0
            }
          },
          { hooks: { onResourceUpdated: (_server, uri) => heard.push(uri) } },
        ),
      ),
    )
  })

  it('notifies about every subscribed resource when a broken stream is reopened', () => {
    const heard: string[] = []
    const streams = new Set<ServerResponse>()
    return serve((url) =>
      listening(lateToListen(new URL(url).origin, streams), (origin) =>
        withServers(
          { web: { url: `${origin}/mcp` } },
          async ({ call, catalog }) => {
            const { endpoints } = catalog.snapshot().owners.get('mcp_web') ?? {}
            for (const uri of ['memo://one', 'memo://two'])
              await endpoints?.request('resources/subscribe', { uri }, noRelay, new AbortController().signal)
            for (const stream of streams) stream.destroy()
            await call('mcp_web.touch', { uri: 'memo://one' })
            expect(heard).toEqual([])
            await until(() => heard.length > 0)
            expect(heard).toEqual(['memo://one', 'memo://two'])
          },
          { hooks: { onResourceUpdated: (_server, uri) => heard.push(uri) } },
        ),
      ),
    )
  })

  it('delivers progress in order', () =>
    serve((url) =>
      withServers({ web: { url } }, async ({ call }) => {
        const heard: number[] = []
        await call('mcp_web.burst', { count: 20 }, { onProgress: (done) => heard.push(done) })
        expect(heard).toEqual(Array.from({ length: 20 }, (_, n) => n + 1))
      }),
    ))
})
describe('an event stream of a server', () => {
  // Its retry time applies to every stream that ends, and a reopened stream ends again.
  it.each([0, 99_999_999_999])(
    'that closes at once and asks for a reopening in %d ms is not reopened in a loop',
    (ms) => {
      const { answer } = sessionful()
      let opened = 0
      return listening(
        (request, response) => {
          if (request.method !== 'GET') return answer(request, response)
          opened++
          response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`retry: ${ms}\nid: 1\ndata:\n\n`)
        },
        (origin) =>
          withServers({ web: { url: origin, allowPrivate: true, start: 'background' } }, async ({ text }) => {
            await until(() => opened > 0)
            await new Promise((done) => setTimeout(done, 2_000))
            expect(opened).toBeLessThan(20)
            expect(await text('mcp_web.count')).toBe('1')
          }),
      )
    },
  )
})

it('an event of more than 16 MiB fails its call, and no other', () => {
  const { answer } = sessionful()
  let long = true
  return listening(
    async (request, response) => {
      if (request.method !== 'POST') return answer(request, response)
      const body = await readText(request)
      if (!long || JSON.parse(body).method !== 'tools/call') return answer(withBody(request, body), response)
      long = false
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const result = { content: [{ type: 'text', text: 'x'.repeat(17 * 2 ** 20) }] }
      response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: JSON.parse(body).id, result })}\n\n`)
    },
    (origin) =>
      withServers({ web: { url: origin, allowPrivate: true, start: 'background' } }, async ({ call, text }) => {
        await expect(call('mcp_web.count')).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
        expect(await text('mcp_web.count')).toBe('1')
      }),
  )
})

describe('an integer that readers would round', () => {
  const result = (n: string): string =>
    `{"content":[{"type":"text","text":"said 1234567890123456789"}],"structuredContent":{"n":${n},"small":7}}`
  it.each(['application/json', 'text/event-stream'])('arrives as text from a server that answers %s', (type) => {
    const { answer } = sessionful()
    return listening(
      async (request, response) => {
        if (request.method !== 'POST') return answer(request, response)
        const body = await readText(request)
        const { id, method } = JSON.parse(body)
        if (method !== 'tools/call') return answer(withBody(request, body), response)
        const json = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result('-9007199254740993')}}`
        response.writeHead(200, { 'content-type': type })
        if (type === 'application/json') return response.end(json)
        const event = `id: 9007199254740993\r\ndata: ${json}\r\n\r\n`
        // The chunk boundary is inside the number.
        const middle = event.indexOf('-9007199') + 9
        response.write(event.slice(0, middle))
        setTimeout(() => response.end(event.slice(middle)), 50)
      },
      (origin) =>
        withServers({ web: { url: origin, allowPrivate: true, start: 'background' } }, async ({ call }) =>
          expect(resultOf(await call('mcp_web.count'))).toEqual({
            content: [{ type: 'text', text: 'said 1234567890123456789' }],
            structuredContent: { n: '-9007199254740993', small: 7 },
          }),
        ),
    )
  })
})

describe('the HTTP client', () => {
  const stream = (
    pieces: readonly string[],
    maxStreamBytes: number,
    test: (body: Promise<string>) => Promise<void>,
  ): Promise<void> =>
    listening(
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        const next = (at: number): void => {
          if (at === pieces.length) return void response.end()
          response.write(pieces[at])
          setTimeout(next, 5, at + 1)
        }
        next(0)
      },
      async (origin) => {
        const client = await createHttpClient(anywhere, 1_000, maxStreamBytes)
        const answer = await client.fetch(origin)
        await test(answer.text())
        await client.close()
      },
    )

  it.each(['\n', '\r\n', '\r'])('reads any number of short events, with line ending %j', (line) => {
    const event = `data: ${'x'.repeat(600)}${line}${line}`
    const pieces = [...Array.from({ length: 5 }, () => event), event.slice(0, -1), event.slice(-1), event]
    return stream(pieces, 10_000, async (body) => expect(await body).toBe(pieces.join('')))
  })

  it('fails a stream that is too long', () =>
    stream(
      Array.from({ length: 5 }, () => `data: ${'x'.repeat(400)}\n`),
      2_000,
      async (body) => {
        await expect(body).rejects.toThrow('the response is longer than 2000 bytes')
      },
    ))

  it('rejects a response that is too long', () =>
    listening(
      (_request, response) => void response.end('x'.repeat(1_001)),
      async (origin) => {
        const client = await createHttpClient(anywhere, 1_000, 1_000)
        await expect(client.fetch(origin)).rejects.toThrow('the response is longer than 1000 bytes')
        await client.close()
      },
    ))

  it('leaves no listener on a signal that many requests share', () =>
    listening(
      (_request, response) => void response.end('{}'),
      async (origin) => {
        const client = await createHttpClient(anywhere, 1_000, 1_000)
        const abort = new AbortController()
        for (let n = 0; n < 40; n++) await (await client.fetch(origin, { signal: abort.signal })).text()
        expect(getEventListeners(abort.signal, 'abort').length).toBeLessThan(3)
        await client.close()
      },
    ))
})
