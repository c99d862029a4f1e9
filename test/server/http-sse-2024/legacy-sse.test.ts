import type { IncomingMessage } from 'node:http'
import { Client, SSEClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { KEEP_ALIVE_MS } from '../../../src/server/event-stream.ts'
import { createManualClock } from '../../clock.ts'
import { ask, call, initialize, LOCAL, modern, open, readUntil, type Started, start, TOKEN, until } from '../echo.ts'

const running: Started[] = []
async function serve(clock = systemClock): Promise<Started> {
  const server = await start(clock)
  running.push(server)
  return server
}
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()))
})

async function openStream(url: string): Promise<{ readonly stream: IncomingMessage; readonly path: string }> {
  const stream = await open(url, { method: 'GET', path: '/sse' })
  const path = /^event: endpoint\ndata: (\S+)\n\n$/.exec(await readUntil(stream, (text) => text.includes('\n\n')))?.[1]
  return { stream, path: String(path) }
}

const textOf = (result: unknown): unknown => (result as { content: Array<{ text?: string }> }).content[0]?.text
const requestInit = { headers: { authorization: `Bearer ${TOKEN}` } }

describe('the stream', () => {
  it('first sends the address for posts, then the answers', async () => {
    const { url, echo } = await serve()
    const { stream, path } = await openStream(url)
    expect(path).toMatch(/^\/messages\?sessionId=[\w-]{32}$/)
    const posted = await ask(url, { path, body: initialize })
    expect([posted.status, posted.text]).toEqual([202, 'Accepted'])
    expect(await readUntil(stream, (text) => text.includes('serverInfo'))).toMatch(/^event: message\ndata: \{.*"id":0/)
    await ask(url, { path, body: call(1, 'echo', { text: 'hi' }) })
    expect(await readUntil(stream, (text) => text.includes('\n\n'))).toContain('"text":"hi"')
    expect(echo.made).toMatchObject([{ era: 'legacy', identity: LOCAL, sessionId: path.split('=')[1] }])
    stream.destroy()
  })

  it('ends its session with it', async () => {
    const server = await serve()
    const { stream, path } = await openStream(server.url)
    expect(server.sessions().sse).toBe(1)
    stream.destroy()
    await until(() => server.sessions().sse === 0)
    expect((await ask(server.url, { path, body: initialize })).status).toBe(404)
    expect(server.echo.disposed()).toBe(1)
  })

  it('is kept alive', async () => {
    const clock = createManualClock()
    const { url } = await serve(clock)
    const { stream } = await openStream(url)
    clock.pass(KEEP_ALIVE_MS)
    expect(await readUntil(stream, () => true)).toBe(': keepalive\n\n')
    stream.destroy()
  })

  it('ends when the server closes', async () => {
    const server = await start(systemClock)
    const { stream } = await openStream(server.url)
    await server.close()
    expect(await readUntil(stream, () => false)).toBe('')
    expect(server.echo.disposed()).toBe(1)
  })
})

describe('a post', () => {
  it('must name an existing session', async () => {
    const { url } = await serve()
    const statuses = [
      '/messages',
      '/messages?sessionId=',
      '/messages?sessionId=chosen-by-client',
      '/messages?other=1',
    ].map(async (path) => (await ask(url, { path, body: initialize })).status)
    expect(await Promise.all(statuses)).toEqual([400, 400, 404, 400])
  })

  it('needs the token, even with a session', async () => {
    const { url } = await serve()
    const { stream, path } = await openStream(url)
    expect((await ask(url, { path, body: initialize, anonymous: true })).status).toBe(401)
    stream.destroy()
  })

  it('contains one well-formed message', async () => {
    const { url } = await serve()
    const { stream, path } = await openStream(url)
    for (const body of ['no json', [initialize], { ...initialize, id: null }, { ...initialize, jsonrpc: '1.0' }])
      expect((await ask(url, { path, body })).status).toBe(400)
    expect((await ask(url, { path, body: initialize, headers: { 'content-type': 'text/plain' } })).status).toBe(415)
    stream.destroy()
  })

  it('of the newer revision gets an error that names this as the older transport', async () => {
    const { url } = await serve()
    const { stream, path } = await openStream(url)
    await ask(url, { path, ...modern(3, 'server/discover', {}) })
    expect(await readUntil(stream, (text) => text.includes('\n\n'))).toContain('"code":-32601')
    stream.destroy()
  })
})

describe('real clients', () => {
  it('of the old SDK can call, be asked, and get change notifications', async () => {
    const { url, echo } = await serve()
    const client = new OldClient({ name: 'old', version: '1' }, { capabilities: { elicitation: {} } })
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { color: 'red' } }))
    let changes = 0
    client.fallbackNotificationHandler = async ({ method }) => {
      if (method === 'notifications/tools/list_changed') changes++
    }
    await client.connect(new OldTransport(new URL('/sse', url), { requestInit }))
    expect((await client.listTools()).tools).toHaveLength(4)
    expect(textOf(await client.callTool({ name: 'echo', arguments: { text: 'ü' } }))).toBe('ü')
    expect(textOf(await client.callTool({ name: 'ask', arguments: {} }))).toBe(
      '{"action":"accept","content":{"color":"red"}}',
    )
    await echo.servers[0]?.sendToolListChanged()
    await until(() => changes === 1)
    await client.close()
    await until(() => echo.disposed() === 1)
  })

  it('of the current SDK can too', async () => {
    const { url } = await serve()
    const client = new Client({ name: 'new', version: '1' })
    await client.connect(new SSEClientTransport(new URL('/sse', url), { requestInit }))
    const seen: number[] = []
    const answer = await client.callTool(
      { name: 'steps', arguments: { text: 'x' } },
      { onprogress: ({ progress }) => seen.push(progress) },
    )
    expect(textOf(answer)).toBe('x')
    await client.close()
  })
})
