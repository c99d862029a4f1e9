import { createServer, type Server as NodeServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { createPulse, createStreamSlots, KEEP_ALIVE_MS } from '../../../src/server/event-stream.ts'
import { sendHttpError } from '../../../src/server/http-error.ts'
import { createEventLog } from '../../../src/server/legacy-2025/event-log.ts'
import { createSessions, type Sessions } from '../../../src/server/legacy-2025/http-sessions.ts'
import { parseMessages } from '../../../src/server/request-body.ts'
import { createManualClock } from '../../clock.ts'
import {
  type Answer,
  ask,
  call,
  type EchoFactory,
  echoFactory,
  initialize,
  open,
  openSession,
  readUntil,
  type Started,
  start,
  until,
} from '../echo.ts'

const running: Started[] = []
async function serve(set: Parameters<typeof start>[1] = {}, clock = systemClock): Promise<Started> {
  const server = await start(clock, set)
  running.push(server)
  return server
}
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()))
})

const ping = (id: number) => ({ jsonrpc: '2.0', id, method: 'ping' })
const textsOf = ({ text }: Answer): string[] => [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => data ?? '')

describe('a session', () => {
  it('has an id of 192 random bits, which every answer repeats', async () => {
    const { url, echo } = await serve()
    const answers = await Promise.all([ask(url, { body: initialize }), ask(url, { body: initialize })])
    const ids = answers.map(({ headers }) => headers['mcp-session-id'])
    expect(ids[0]).toMatch(/^[\w-]{32}$/)
    expect(ids[1]).not.toBe(ids[0])
    expect(echo.made.map((one) => (one.era === 'legacy' ? one.sessionId : '')).sort()).toEqual([...ids].sort())
    const session = { 'mcp-session-id': String(ids[0]) }
    expect((await ask(url, { headers: session, body: ping(1) })).headers['mcp-session-id']).toBe(ids[0])
  })

  it('is required, and reported as unknown if it is not ours', async () => {
    const { url } = await serve()
    const session = await openSession(url)
    const requests = [{ body: ping(1) }, { method: 'GET' }, { method: 'DELETE' }]
    for (const request of requests) {
      expect((await ask(url, request)).status).toBe(400)
      for (const id of ['chosen-by-client', '', '../../etc', `${session['mcp-session-id']}x`]) {
        const answer = await ask(url, { ...request, headers: { 'mcp-session-id': id } })
        expect([answer.status, answer.json.error?.code]).toEqual([404, -32001])
      }
    }
    expect((await ask(url, { body: initialize, headers: { 'mcp-session-id': 'chosen-by-client' } })).status).toBe(404)
  })

  it('is created only by initialize', async () => {
    const { url, echo } = await serve()
    const session = await openSession(url)
    expect((await ask(url, { headers: session, body: { ...initialize, id: 9 } })).status).toBe(400)
    expect((await ask(url, { body: [initialize, ping(1)] })).status).toBe(400)
    expect((await ask(url, { body: [initialize] })).status).toBe(400)
    expect(echo.made).toHaveLength(1)
  })

  it('is not kept if initialize failed', async () => {
    const server = await serve()
    const answer = await ask(server.url, { body: { ...initialize, params: {} } })
    expect(answer.json.error?.code).toBe(-32602)
    expect(server.sessions().streamable).toBe(0)
  })

  it('ends with DELETE, including its streams and instance', async () => {
    const server = await serve()
    const session = await openSession(server.url)
    const listening = await open(server.url, { method: 'GET', headers: session })
    expect((await ask(server.url, { method: 'DELETE', headers: session })).status).toBe(200)
    expect(await readUntil(listening, () => false)).toMatch(/^id: \S+\ndata: \n\n$/)
    expect((await ask(server.url, { headers: session, body: ping(1) })).status).toBe(404)
    expect([server.echo.disposed(), server.sessions().streamable]).toEqual([1, 0])
  })

  it('ends when idle for too long, but not while a stream is open', async () => {
    const clock = createManualClock()
    const server = await serve({ set: { sessionIdleMs: 60_000 } }, clock)
    const idle = await openSession(server.url)
    const used = await openSession(server.url)
    const listening = await openSession(server.url)
    const stream = await open(server.url, { method: 'GET', headers: listening })
    clock.pass(40_000)
    expect((await ask(server.url, { headers: used, body: ping(1) })).status).toBe(200)
    clock.pass(40_000)
    expect((await ask(server.url, { headers: idle, body: ping(2) })).status).toBe(404)
    expect((await ask(server.url, { headers: used, body: ping(2) })).status).toBe(200)
    clock.pass(600_000)
    expect(server.sessions().streamable).toBe(1)
    stream.destroy()
    // A closed stream counts as idle.
    for (let i = 0; i < 100 && server.sessions().streamable > 0; i++) {
      await new Promise((resolve) => setTimeout(resolve, 10))
      clock.pass(60_000)
    }
    expect([server.sessions().streamable, server.echo.disposed()]).toEqual([0, 3])
  })

  it('that is idle the longest makes room for a new one', async () => {
    const server = await serve({ set: { maxSessions: 3 } })
    const [first, second, third] = [
      await openSession(server.url),
      await openSession(server.url),
      await openSession(server.url),
    ]
    await ask(server.url, { headers: first, body: ping(1) })
    const fourth = await openSession(server.url)
    expect(server.sessions().streamable).toBe(3)
    const statuses = await Promise.all(
      [first, second, third, fourth].map((headers) => ask(server.url, { headers, body: ping(2) })),
    )
    expect(statuses.map(({ status }) => status)).toEqual([200, 404, 200, 200])
    expect(server.echo.disposed()).toBe(1)
  })
})

describe('an answer', () => {
  it('is plain JSON if there is nothing else to send', async () => {
    const { url } = await serve()
    const session = await openSession(url)
    const answer = await ask(url, { headers: session, body: call('a', 'echo', { text: 'hi' }) })
    expect(answer.headers['content-type']).toBe('application/json')
    expect(answer.json).toEqual({ jsonrpc: '2.0', id: 'a', result: { content: [{ type: 'text', text: 'hi' }] } })
  })

  it('is a stream if something is sent before', async () => {
    const { url } = await serve()
    const session = await openSession(url)
    const answer = await ask(url, { headers: session, body: call(1, 'steps', { text: 'hi' }, { progressToken: 7 }) })
    expect([answer.headers['content-type'], answer.headers['x-accel-buffering']]).toEqual(['text/event-stream', 'no'])
    const [progress, result] = textsOf(answer).map((data) => JSON.parse(data))
    expect(progress).toMatchObject({ method: 'notifications/progress', params: { progressToken: 7, progress: 1 } })
    expect(result).toMatchObject({ id: 1, result: { content: [{ text: 'hi' }] } })
  })

  it('that takes long gets keep-alive comments', async () => {
    const clock = createManualClock()
    const { url } = await serve({}, clock)
    const session = await openSession(url)
    const waiting = ask(url, { headers: session, body: call(1, 'wait', { ms: 2_000, text: 'at last' }) })
    let over = false
    void waiting.finally(() => {
      over = true
    })
    while (!over) {
      await new Promise((resolve) => setTimeout(resolve, 100))
      clock.pass(2 * KEEP_ALIVE_MS)
    }
    const answer = await waiting
    expect(answer.headers['content-type']).toBe('text/event-stream')
    expect(answer.text).toMatch(/^id: \S+\ndata: \n\n(?:: keepalive\n\n)+.*"text":"at last"/s)
  })

  it.each(['2025-11-25', '2025-06-18', '2024-11-05'])('to a batch is an error in %s', async (revision) => {
    const { url, echo } = await serve()
    const headers = { ...(await openSession(url, revision)), 'mcp-protocol-version': revision }
    for (const body of [
      [call(1, 'echo', { text: 'a' }), call(2, 'echo', { text: 'b' })],
      [call(3, 'wait', { ms: 60_000 })],
    ]) {
      const answer = await ask(url, { headers, body })
      expect([answer.status, answer.json.error]).toEqual([
        400,
        { code: -32600, message: `Invalid request: batch not supported in ${revision}, send one message a request` },
      ])
    }
    expect((await ask(url, { headers, body: ping(1) })).status).toBe(200)
    await ask(url, { method: 'DELETE', headers })
    expect(echo.aborted()).toBe(0)
  })

  it('to a batch is a batch in 2025-03-26; to notifications it is 202', async () => {
    const { url } = await serve()
    const session = await openSession(url, '2025-03-26')
    const body = [
      call(1, 'echo', { text: 'a' }),
      { jsonrpc: '2.0', method: 'notifications/x' },
      call(2, 'echo', { text: 'b' }),
    ]
    const answer = await ask(url, { headers: session, body })
    expect((answer.json as unknown as Array<{ id: number }>).map(({ id }) => id).sort()).toEqual([1, 2])
    const told = await ask(url, { headers: session, body: { jsonrpc: '2.0', method: 'notifications/x' } })
    expect([told.status, told.text]).toEqual([202, ''])
  })

  it('to a cancelled call is empty', async () => {
    const { url, echo } = await serve()
    const session = await openSession(url)
    const waiting = ask(url, { headers: session, body: call(5, 'wait', { ms: 60_000 }) })
    await until(() => echo.waits() === 1)
    for (const requestId of [6, 'unknown', { a: 1 }, undefined, 5])
      await ask(url, {
        headers: session,
        body: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } },
      })
    const { status, text } = await waiting
    expect([status, text]).toEqual([200, ''])
    await until(() => echo.aborted() === 1)
  })

  it('is rejected for a duplicate id', async () => {
    const { url } = await serve()
    const session = await openSession(url)
    const waiting = ask(url, { headers: session, body: call(5, 'wait', { ms: 200, text: 'mine' }) })
    await new Promise((resolve) => setTimeout(resolve, 50))
    const again = await ask(url, { headers: session, body: call(5, 'echo', { text: 'other' }) })
    expect([again.status, again.json.error?.code]).toEqual([400, -32600])
    expect((await waiting).text).toContain('"text":"mine"')
    const twin = await ask(url, { headers: session, body: [ping(8), ping(8)] })
    expect(twin.status).toBe(400)
  })

  it('requires a client that accepts both formats', async () => {
    const { url } = await serve()
    const session = await openSession(url)
    expect((await ask(url, { headers: { ...session, accept: 'application/json' }, body: ping(1) })).status).toBe(406)
    expect((await ask(url, { method: 'GET', headers: { ...session, accept: 'application/json' } })).status).toBe(406)
  })
})

describe('a message that belongs to no request', () => {
  it('goes to the newest stream, and to the previous one when that closes', async () => {
    const { url, echo } = await serve()
    const session = await openSession(url)
    const older = await open(url, { method: 'GET', headers: session })
    const newer = await open(url, { method: 'GET', headers: session })
    await echo.servers[0]?.sendToolListChanged()
    expect(await readUntil(newer, (text) => text.includes('{'))).toContain('notifications/tools/list_changed')
    newer.destroy()
    const heard = readUntil(older, (text) => text.includes('{'))
    const timer = setInterval(() => void echo.servers[0]?.sendToolListChanged(), 10)
    expect(await heard).toContain('notifications/tools/list_changed')
    clearInterval(timer)
    older.destroy()
  })

  it('is dropped without a stream, but a question fails at once', async () => {
    const { url, echo } = await serve()
    await openSession(url)
    await expect(echo.servers[0]?.sendToolListChanged()).resolves.toBeUndefined()
    await expect(echo.servers[0]?.ping()).rejects.toThrow('no open stream')
  })

  it('keeps its stream alive', async () => {
    const clock = createManualClock()
    const { url } = await serve({}, clock)
    const session = await openSession(url)
    const stream = await open(url, { method: 'GET', headers: session })
    clock.pass(KEEP_ALIVE_MS)
    expect(await readUntil(stream, (text) => text.includes('keepalive'))).toContain(': keepalive\n\n')
    stream.destroy()
  })

  it('waits for a slow client for a limited time', async () => {
    const { url, echo } = await serve()
    const session = await openSession(url)
    const stream = await open(url, { method: 'GET', headers: session })
    stream.pause()
    const ended = new Promise((resolve) => stream.once('close', resolve))
    stream.once('error', () => undefined)
    const data = 'x'.repeat(2 ** 20)
    // Log messages are dropped before that.
    for (let i = 0; i < 40; i++) await echo.servers[0]?.sendLoggingMessage({ level: 'error', data })
    expect(stream.destroyed).toBe(false)
    const changed = { method: 'notifications/tools/list_changed', params: { _meta: { data } } } as const
    for (let i = 0; i < 40; i++) await echo.servers[0]?.notification(changed)
    stream.resume()
    await ended
    expect(stream.complete).toBe(false)
  })
})

describe('sessions of several principals', () => {
  let http: NodeServer
  let sessions: Sessions
  let echo: EchoFactory
  afterEach(async () => {
    await sessions.close()
    http.closeAllConnections()
    http.close()
  })

  it('are invisible to each other', async () => {
    echo = echoFactory()
    sessions = createSessions({
      factory: echo.make,
      clock: systemClock,
      pulse: createPulse(systemClock),
      soon: createPulse(systemClock),
      events: createEventLog({ clock: systemClock, maxBytes: 0, maxEvents: 1 }),
      slots: createStreamSlots(1),
      maxSessions: 10,
      idleMs: 60_000,
      onOpen: () => undefined,
    })
    http = createServer((req, res) => {
      const identity = { principal: String(req.headers['x-principal']), profile: 'default', roles: [] }
      const answer = { GET: sessions.listen, DELETE: sessions.end }[req.method ?? '']
      if (answer) return void answer(req, res, identity).catch((error) => sendHttpError(res, error))
      let text = ''
      req.setEncoding('utf8').on('data', (part) => (text += part))
      req.once('end', () => {
        sessions.post(req, res, identity, parseMessages(text)).catch((error) => sendHttpError(res, error))
      })
    })
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
    const as = (principal: string, session: object = {}) => ({ 'x-principal': principal, ...session })
    const opened = await ask(url, { headers: as('ann'), body: initialize })
    const session = { 'mcp-session-id': String(opened.headers['mcp-session-id']) }
    for (const request of [{ body: ping(1) }, { method: 'GET' }, { method: 'DELETE' }]) {
      const foreign = await ask(url, { ...request, headers: as('bob', session) })
      const unknown = await ask(url, { ...request, headers: as('bob', { 'mcp-session-id': 'x' }) })
      expect([foreign.status, foreign.text]).toEqual([404, unknown.text])
    }
    expect((await ask(url, { headers: as('ann', session), body: ping(1) })).status).toBe(200)
    // Streams of one principal are invisible to others.
    const bobs = await ask(url, { headers: as('bob'), body: initialize })
    const annListens = await open(url, { method: 'GET', headers: as('ann', session) })
    expect((await ask(url, { method: 'GET', headers: as('ann', session) })).status).toBe(429)
    const bobListens = await open(url, {
      method: 'GET',
      headers: as('bob', { 'mcp-session-id': String(bobs.headers['mcp-session-id']) }),
    })
    expect(bobListens.statusCode).toBe(200)
    annListens.destroy()
    bobListens.destroy()
    expect(echo.made.map(({ identity }) => identity.principal)).toEqual(['ann', 'bob'])
  })
})
