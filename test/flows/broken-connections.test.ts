import { mkdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OlderTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { type Answer, temporaryFolder } from '../app.ts'
import { startHttpApp } from '../security/http-app.ts'
import { ask, call, open, openSession, readUntil, start, TOKEN } from '../server/echo.ts'
import { until } from '../upstream/host.ts'

const BOB = 'a-token-that-is-bob-alone'
const tokens = [{ token: BOB, principal: 'bob' }]

/** Calls of `work` run until `finish` is called, and record their outcome. */
const SLOW = `
const waiting = new Map()
let began = 0, cancelled = 0
export default {
  name: 'slow',
  description: 'Works until it is told to finish.',
  tools: {
    work: {
      description: 'Works.', effect: 'write',
      input: { type: 'object', properties: { name: { type: 'string' }, bytes: { type: 'number' } }, required: ['name'] },
      async run({ name, bytes = 0 }, ctx) {
        began++
        ctx.progress(1, 2, 'begun ' + name)
        ctx.signal.addEventListener('abort', () => cancelled++)
        await new Promise((resolve) => waiting.set(name, resolve))
        return 'worked on ' + name + '.'.repeat(bytes)
      },
    },
    finish: {
      description: 'Ends a call.', effect: 'write',
      input: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      run({ name }) { waiting.get(name)?.(); return 'finished' },
    },
    count: { description: 'Counts calls.', effect: 'read', run: () => ({ began, cancelled }) },
  },
}`

async function served(http: Record<string, unknown> = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'slow.mjs'), SLOW)
  const server = await startHttpApp({ tokens, ...http }, {}, { dir })
  const { localCaller } = await import('../../src/core/caller.ts')
  const run = async (name: string, input: object = {}): Promise<unknown> => {
    const result = await server.app.call({ name: `slow.${name}`, input, caller: localCaller })
    return (result as { readonly value: unknown }).value
  }
  return {
    ...server,
    finish: (name: string) => run('finish', { name }),
    began: async (count: number) =>
      await expect.poll(async () => ((await run('count')) as { began: number }).began).toBe(count),
    count: () => run('count'),
  }
}

/** A proxy that can drop output of the server and cut all connections. */
async function proxy(url: string) {
  const sockets = new Set<Socket>()
  let passed = ''
  let loses = false
  const server = createServer((near) => {
    const far = connect(Number(new URL(url).port), '127.0.0.1')
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.once('close', () => {
        sockets.delete(one)
        other.destroy()
      })
      one.on('data', (bytes) => {
        if (one === far) {
          if (loses) return
          passed += bytes.toString('latin1')
        }
        other.write(bytes)
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = (): void => {
    loses = false
    passed = ''
    for (const socket of [...sockets]) socket.destroy()
  }
  onTestFinished(() => {
    cut()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    /** From now on the client gets nothing from the server, until `cut`. */
    lose: () => {
      loses = true
    },
    /** Output that reached the client since the last `cut`. */
    passed: () => passed,
  }
}

const requestInit = { headers: { authorization: `Bearer ${TOKEN}` } }
const reconnectionOptions = {
  initialReconnectionDelay: 50,
  maxReconnectionDelay: 200,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 20,
}
const clients = {
  async current(url: string) {
    const client = new Client({ name: 'broken', version: '1' }, { versionNegotiation: { mode: 'legacy' } })
    await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit, reconnectionOptions }))
    onTestFinished(() => client.close().catch(() => undefined))
    return Object.assign(client, {
      work: (name: string, options = {}) =>
        client.callTool({ name: 'slow__work', arguments: { name } }, options).then(textOf),
    })
  },
  async older(url: string) {
    const client = new OlderClient({ name: 'broken', version: '1' })
    await client.connect(new OlderTransport(new URL('/mcp', url), { requestInit, reconnectionOptions }) as never)
    onTestFinished(() => client.close().catch(() => undefined))
    return Object.assign(client, {
      work: (name: string, options = {}) =>
        client.callTool({ name: 'slow__work', arguments: { name } }, undefined, options).then(textOf),
    })
  },
}

const textOf = (answer: unknown): string => (answer as Answer).content[0].text

describe.each(['current', 'older'] as const)("a call of the SDK's %s client whose connection breaks", (which) => {
  it('continues, and its result arrives on the next connection', async () => {
    const server = await served()
    const { url, cut, passed } = await proxy(server.url)
    const client = await clients[which](url)
    const answer = client.work('a')
    await server.began(1)
    // Only the id with which a client resumes was sent.
    await until(() => /^id: [\w-]{8}\.[1-9]\d*\.0\r?\n/m.test(passed()))
    for (let times = 0; times < 3; times++) {
      cut()
      await until(() => passed().includes('text/event-stream'))
    }
    await server.finish('a')
    expect(await answer).toBe('worked on a')
    expect(await server.count()).toEqual({ began: 1, cancelled: 0 })
  })

  it('gets a result that was sent while disconnected or lost on the way', async () => {
    const server = await served()
    const { url, cut, lose, passed } = await proxy(server.url)
    const client = await clients[which](url)
    const heard: unknown[] = []
    const answer = client.work('b', { onprogress: (progress: { message?: string }) => heard.push(progress.message) })
    await server.began(1)
    await until(() => passed().includes('begun b'))
    lose()
    await server.finish('b')
    await new Promise((resolve) => setTimeout(resolve, 100))
    cut()
    expect(await answer).toBe('worked on b')
    expect(heard).toEqual(['begun b'])
    // A client that has its result does not reconnect.
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(passed().match(/text\/event-stream/g)).toHaveLength(2)
  })

  it('gets changes that happened while its notification stream was broken', async () => {
    const server = await start(systemClock)
    onTestFinished(() => server.close())
    const { url, cut, lose, passed } = await proxy(server.url)
    const client = await clients[which](url)
    const heard: unknown[] = []
    client.fallbackNotificationHandler = async ({ method, params }) => void heard.push([method, params])
    await until(() => /^id: [\w-]{8}\.0\.0\r?\n/m.test(passed()))
    const say = (data: string) => server.echo.servers[0]?.sendLoggingMessage({ level: 'info', data })
    const log = (data: string) => ['notifications/message', { level: 'info', data }]
    await say('heard')
    await until(() => heard.length === 1)
    lose()
    await say('lost')
    await server.echo.servers[0]?.sendToolListChanged()
    cut()
    await say('between')
    await until(() => heard.length === 4)
    await say('after')
    await until(() => heard.length === 5)
    expect(heard).toEqual([
      log('heard'),
      log('lost'),
      ['notifications/tools/list_changed', undefined],
      log('between'),
      log('after'),
    ])
  })
})

describe('Last-Event-ID', () => {
  const accept = { accept: 'text/event-stream' }
  const resume = (url: string, session: object, id: string, headers = {}) =>
    ask(url, { method: 'GET', headers: { ...accept, ...session, 'last-event-id': id, ...headers } })

  /** A call whose connection broke after its first message, and the id of that message. */
  async function broken(url: string, session: object, name: string, revision = '2025-11-25') {
    const headers = { ...session, 'mcp-protocol-version': revision }
    const body = call(name, 'slow__work', { name }, { progressToken: name })
    const stream = await open(url, { headers, body })
    const text = await readUntil(stream, (said) => said.includes(`begun ${name}`))
    stream.destroy()
    return String(/^id: (\S+)$/m.exec(text)?.[1])
  }

  it('returns what followed on its own stream, and then ends', async () => {
    const server = await served()
    const session = await openSession(server.url)
    const ids = [await broken(server.url, session, 'a'), await broken(server.url, session, 'b')]
    const going = resume(server.url, session, ids[0] as string)
    await server.finish('b')
    await server.finish('a')
    const first = await going
    expect([first.status, first.headers['content-type'], first.headers['mcp-session-id']]).toEqual([
      200,
      'text/event-stream',
      session['mcp-session-id'],
    ])
    expect(first.text).toContain('worked on a')
    expect(first.text).not.toMatch(/begun|worked on b/)
    const second = await resume(server.url, session, ids[1] as string)
    expect(second.text).toContain('worked on b')
    // The events can be read again while they are stored; nothing follows the last one.
    expect((await resume(server.url, session, ids[1] as string)).text).toBe(second.text)
    const last = String([...second.text.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1])
    expect(last.split('.').slice(0, 2)).toEqual(ids[1]?.split('.').slice(0, 2))
    expect((await resume(server.url, session, last)).status).toBe(204)
  })

  it('of another session or principal returns nothing', async () => {
    const server = await served()
    const [mine, other] = [await openSession(server.url), await openSession(server.url)]
    const id = await broken(server.url, mine, 'a')
    await server.finish('a')
    const bob = { authorization: `Bearer ${BOB}` }
    const opened = await ask(server.url, {
      headers: bob,
      body: {
        jsonrpc: '2.0',
        id: 0,
        method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bob', version: '1' } },
      },
    })
    const bobs = { 'mcp-session-id': String(opened.headers['mcp-session-id']) }
    const refusals = await Promise.all([
      resume(server.url, other, id),
      resume(server.url, bobs, id, bob),
      resume(server.url, mine, id, bob),
      resume(server.url, {}, id),
      resume(server.url, mine, id.replace(/\d+\.\d+$/, '999.0')),
    ])
    expect(refusals.map(({ status }) => status)).toEqual([400, 400, 404, 400, 400])
    for (const { text } of refusals) expect(text).not.toContain('worked')
    expect((await resume(server.url, mine, id)).text).toContain('worked on a')
  })

  it('that is unknown opens a notification stream, as without the header', async () => {
    const server = await served()
    const session = await openSession(server.url)
    for (const id of ['7', 'x'.repeat(5_000), 'aaaaaaaa.0.0', '../..']) {
      const stream = await open(server.url, { method: 'GET', headers: { ...accept, ...session, 'last-event-id': id } })
      expect(stream.statusCode).toBe(200)
      stream.destroy()
    }
  })

  it("does not count against the principal's stream limit", async () => {
    const server = await served({ maxStreams: 1 })
    const session = await openSession(server.url)
    const news = await open(server.url, { method: 'GET', headers: { ...accept, ...session } })
    const names = ['a', 'b', 'c']
    const ids = await Promise.all(names.map((name) => broken(server.url, session, name)))
    const answers = ids.map((id) => resume(server.url, session, id))
    for (const name of names) await server.finish(name)
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200])
    news.destroy()
  })

  it('of a cancelled call gets 204, because nothing follows', async () => {
    const server = await served()
    const session = await openSession(server.url)
    const id = await broken(server.url, session, 'a')
    const params = { requestId: 'a' }
    await ask(server.url, { headers: session, body: { jsonrpc: '2.0', method: 'notifications/cancelled', params } })
    expect((await resume(server.url, session, id)).status).toBe(204)
    expect(await server.count()).toEqual({ began: 1, cancelled: 1 })
  })

  it('works for clients of 2025-06-18, which get no event without a message', async () => {
    const server = await served()
    const session = { ...(await openSession(server.url, '2025-06-18')), 'mcp-protocol-version': '2025-06-18' }
    const id = await broken(server.url, session, 'a', '2025-06-18')
    const quiet = ask(server.url, { headers: session, body: call('b', 'slow__work', { name: 'b' }) })
    await server.began(2)
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    for (const name of ['a', 'b']) await server.finish(name)
    expect((await resume(server.url, session, id)).text).toContain('worked on a')
    expect((await quiet).json.result).toMatchObject({ content: [{ text: 'worked on b' }] })
  })

  it('is not sent if maxReplayBytes is 0', async () => {
    const server = await served({ maxReplayBytes: 0 })
    const session = await openSession(server.url)
    expect(await broken(server.url, session, 'a')).toBe('undefined')
    await server.finish('a')
    // The call continues anyway.
    await expect.poll(() => server.count()).toEqual({ began: 1, cancelled: 0 })
  })
})
