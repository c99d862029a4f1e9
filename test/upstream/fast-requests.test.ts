import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as readText } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { modern, type Rig, resultOf, scripted, until, withHttpServer, withServers } from './host.ts'

type Message = { id?: number | string; method?: string; params?: Record<string, never> }

/** What a 2025-era server does during a call. */
interface Ways {
  /** Sends the messages in one chunk. */
  say(...messages: object[]): void
  readonly message: Message
}

const encoded = (message: object): string => JSON.stringify({ jsonrpc: '2.0', ...message })
const events = (messages: readonly object[]): string =>
  messages.map((message) => `event: message\ndata: ${encoded(message)}\n\n`).join('')
/** All messages as one event, as in 2025-03-26. */
const batch = (messages: readonly object[]): string =>
  `event: message\r\ndata: [ ${messages.map(encoded).join(' , ')} ]\r\n\r\n`

/** A 2025-era server over either HTTP transport, whose calls do what the test requests. */
async function withWeb(
  kind: 'http' | 'sse',
  tools: Readonly<Record<string, (ways: Ways) => void>>,
  test: (rig: Rig, heard: { readonly calls: string[]; readonly cancelled: unknown[] }) => Promise<void>,
  encode: (messages: readonly object[]) => string = events,
): Promise<void> {
  const heard = { calls: [] as string[], cancelled: [] as unknown[] }
  let stream: ServerResponse | undefined
  const serve = (message: Message, say: Ways['say']): void => {
    const { id, method, params } = message
    if (method === 'notifications/cancelled') heard.cancelled.push(params?.['requestId'])
    if (id === undefined) return
    if (method === 'initialize')
      say({
        id,
        result: {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: 'web', version: '1' },
        },
      })
    else if (method === 'tools/list')
      say({ id, result: { tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' } })) } })
    else if (method === 'tools/call') {
      const name = String(params?.['name'])
      heard.calls.push(name)
      tools[name]?.({ say, message })
    } else say({ id, error: { code: -32601, message: 'no' } })
  }
  const answer: RequestListener = async (request, response) => {
    if (request.method === 'GET' && kind === 'sse') {
      stream = response
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      return void response.write('event: endpoint\ndata: /messages\n\n')
    }
    if (request.method !== 'POST' || (kind === 'sse' && request.url !== '/messages'))
      return void response.writeHead(405).end()
    const message = JSON.parse(await readText(request)) as Message
    if (kind === 'sse') {
      response.writeHead(202).end()
      return serve(message, (...messages) => stream?.write(encode(messages)))
    }
    if (message.id === undefined) response.writeHead(202).end()
    serve(message, (...messages) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(encode(messages))
    })
  }
  const server = createServer((request, response) => void answer(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${kind === 'sse' ? 'sse' : 'mcp'}`
  try {
    await withServers({ s: { url, ...(kind === 'sse' ? { type: 'sse' } : {}) } }, (rig) => test(rig, heard))
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const burst = ({ say, message: { id, params } }: Ways): void => {
  const meta = params?.['_meta'] as { progressToken?: unknown } | undefined
  const steps = Array.from({ length: 500 }, (_, n) => ({
    method: 'notifications/progress',
    params: { progressToken: meta?.progressToken, progress: n + 1, total: 500 },
  }))
  say(...steps, { id, result: { content: [{ type: 'text', text: 'done' }] } })
}
const hang = (): void => undefined

const ALL = Array.from({ length: 500 }, (_, n) => n + 1)

describe('five hundred progress notifications that arrive together with the result', () => {
  const heardBy = async ({ call }: Rig): Promise<unknown[]> => {
    const heard: unknown[] = []
    const answer = call('mcp_s.burst', { count: 500 }, { onProgress: (done) => heard.push(done) }).then((result) => {
      heard.push(resultOf(result).content?.[0]?.['text'])
    })
    await answer
    return heard
  }

  it.each(['http', 'sse'] as const)('are all delivered from one batch: a 2025-03-26 server over %s', (kind) =>
    withWeb(kind, { burst }, async (rig) => expect(await heardBy(rig)).toEqual([...ALL, 'done']), batch),
  )

  it('are all delivered in order before the result: stdio', () =>
    withServers({ s: scripted() }, async (rig) => expect(await heardBy(rig)).toEqual([...ALL, 'done'])))

  it.each(['http', 'sse'] as const)('are all delivered in order before the result: a 2025-era server over %s', (kind) =>
    withWeb(kind, { burst }, async (rig) => expect(await heardBy(rig)).toEqual([...ALL, 'done'])),
  )

  it('are all delivered in order before the result: a 2026-07-28 server on stdio and over HTTP', async () => {
    await withServers({ s: modern('--only') }, async (rig) => expect(await heardBy(rig)).toEqual([...ALL, 'done']))
    await withHttpServer(modern('--http'), /port (\d+)/, (port) =>
      withServers({ s: { url: `http://127.0.0.1:${port}/mcp` } }, async (rig) =>
        expect(await heardBy(rig)).toEqual([...ALL, 'done']),
      ),
    )
  })
})

describe('an abandoned call', () => {
  it.each(['http', 'sse'] as const)('is cancelled at the server within a second: over %s', (kind) =>
    withWeb(kind, { hang }, async ({ call }, { cancelled }) => {
      const abort = new AbortController()
      const hanging = call('mcp_s.hang', {}, { signal: abort.signal })
      setTimeout(() => abort.abort(), 50)
      await expect(hanging).rejects.toMatchObject({ code: 'E_CANCELLED' })
      await until(() => cancelled.length === 1)
      expect(String(cancelled[0])).toMatch(/^p:\d+$/)
    }),
  )
})

describe('a call whose connection breaks', () => {
  const dying: Readonly<Record<string, (ways: Ways) => void>> = {
    // The response begins and never ends, so the call may have run.
    send_money: ({ say }) => say({ method: 'notifications/message', params: { level: 'info', data: 'paid' } }),
  }

  it('fails and is not repeated, because it may have run', () =>
    withWeb('http', dying, async ({ call }, heard) => {
      await expect(call('mcp_s.send_money')).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE', retryable: true })
      await new Promise((resolve) => setTimeout(resolve, 300))
      expect(heard.calls).toEqual(['send_money'])
    }))

  it('because the server died fails and is not repeated', () =>
    withServers({ s: scripted() }, async ({ call, text }) => {
      await expect(call('mcp_s.crash')).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE', retryable: true })
      // A repeated call would kill the next process too.
      expect(await text('mcp_s.echo', { text: 'alive' })).toBe('alive')
    }))
})
