import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type App, createApp } from '../../src/app/app.ts'
import { readConfig } from '../../src/config/load-config.ts'
import { systemClock } from '../../src/core/clock.ts'
import { createLog } from '../../src/core/log.ts'
import { listenHttp } from '../../src/server/listen-http.ts'
import type { HttpServer } from '../../src/server/serve-http.ts'
import { connectTo } from '../client.ts'

/** Every combination of client and server eras, with one application for all. */
const downstreams = [
  'stdio 2025-11-25',
  'http 2025-11-25',
  'sse 2025-11-25',
  'stdio 2026-07-28',
  'http 2026-07-28',
] as const
const upstreams = [
  'raw-stdio',
  'raw-sse',
  'raw-03-http',
  'raw-06-stdio',
  'v1-stdio',
  'v1-http',
  'v1-sse',
  'v2-stdio',
  'v2-http',
] as const
type Downstream = (typeof downstreams)[number]
type Upstream = (typeof upstreams)[number]

const fixture = join(import.meta.dirname, '../fixtures/upstreams/eras.mjs')
const TOKEN = 'a-token-for-the-matrix-of-eras'

const roots = [{ uri: 'file:///home/ann', name: 'home' }]
/** Revisions before 2025-06-18 had no elicitation, so there is nothing to bridge. */
const cannotAsk = (upstream: string): boolean => upstream.startsWith('raw') && upstream !== 'raw-06-stdio'

const children: ChildProcess[] = []
const clients = new Map<string, Client>()
const updated = new Map<Client, string[]>()
const logged: string[] = []
let dir: string
let app: App
let http: HttpServer

/** A client that answers questions. */
async function client(downstream: Downstream): Promise<Client> {
  const modern = downstream.endsWith('2026-07-28')
  const options = { capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} } }
  const headers = { authorization: `Bearer ${TOKEN}` }
  const made = downstream.startsWith('stdio')
    ? await connectTo(app, modern ? 'modern' : 'legacy', options)
    : new Client(
        { name: 'test', version: '1' },
        { ...options, versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' } },
      )
  made.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ann' } }))
  made.setRequestHandler('sampling/createMessage', () => ({
    role: 'assistant',
    model: 'm',
    content: { type: 'text', text: 'a thought' },
  }))
  made.setRequestHandler('roots/list', () => ({ roots }))
  const heard: string[] = []
  updated.set(made, heard)
  made.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri))
  if (downstream.startsWith('sse'))
    await made.connect(new SSEClientTransport(new URL('/sse', http.url), { requestInit: { headers } }))
  if (downstream.startsWith('http'))
    await made.connect(new StreamableHTTPClientTransport(new URL('/mcp', http.url), { requestInit: { headers } }))
  return made
}

/** Starts a server that listens, and returns its address. */
function port(...args: string[]): Promise<number> {
  const child = spawn(process.execPath, [fixture, ...args], { stdio: ['pipe', 'ignore', 'pipe'] })
  children.push(child)
  return new Promise((resolve, reject) => {
    let output = ''
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk
      const found = /port (\d+)/.exec(output)
      if (found) resolve(Number(found[1]))
    })
    child.once('exit', () => reject(new Error(output)))
  })
}

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'pegboard-'))
  const stdio = (name: string, age: string, ...revision: string[]) => ({
    command: process.execPath,
    args: [fixture, name, age, 'stdio', ...revision],
  })
  const [rawsse, raw03, v1http, v1sse, v2http] = await Promise.all([
    port('raw-sse', 'raw', 'sse'),
    port('raw-03-http', 'raw', 'http', '2025-03-26'),
    port('v1-http', 'v1', 'http'),
    port('v1-sse', 'v1', 'sse'),
    port('v2-http', 'v2', 'http'),
  ])
  const mcpServers = {
    'raw-stdio': stdio('raw-stdio', 'raw'),
    'raw-sse': { url: `http://127.0.0.1:${rawsse}/sse` },
    'raw-03-http': { url: `http://127.0.0.1:${raw03}/mcp` },
    'raw-06-stdio': stdio('raw-06-stdio', 'raw', '2025-06-18'),
    'v1-stdio': stdio('v1-stdio', 'v1'),
    'v1-http': { url: `http://127.0.0.1:${v1http}/mcp` },
    'v1-sse': { url: `http://127.0.0.1:${v1sse}/sse` },
    'v2-stdio': stdio('v2-stdio', 'v2'),
    'v2-http': { url: `http://127.0.0.1:${v2http}/mcp` },
  }
  const settings = Object.fromEntries(
    Object.entries(mcpServers).map(([id, one]) => [
      id,
      { ...one, start: 'eager', relay: ['elicitation', 'sampling', 'roots'] },
    ]),
  )
  const env = { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') }
  const { config } = readConfig(
    JSON.stringify({ exposure: { mode: 'direct' }, mcpServers: settings }),
    join(dir, 'mcp.config.json'),
    { env, cwd: dir },
  )
  app = createApp(config, {
    env,
    log: createLog((line) => logged.push(line), 'warn'),
    connectDelayMs: { cold: 0, known: 0 },
  })
  await app.start()
  await app.settled(30_000)
  http = await listenHttp({
    host: app.server,
    settings: { ...config.server.http, port: 0 },
    token: TOKEN,
    clock: systemClock,
    forget: () => undefined,
  })
  for (const downstream of downstreams) clients.set(downstream, await client(downstream))
}, 60_000)

afterAll(async () => {
  for (const one of clients.values()) await one.close()
  await http?.close()
  await app?.stop()
  for (const child of children) child.kill('SIGKILL')
  rmSync(dir, { recursive: true, force: true, maxRetries: 3 })
})

const textOf = (result: unknown): unknown => (result as { content: Array<{ text?: string }> }).content[0]?.text

/** The expected result of each feature, and the exceptions. */
const features: Record<string, (client: Client, upstream: Upstream, downstream: Downstream) => Promise<void>> = {
  tools: async (client, upstream) => {
    const result = await client.callTool({ name: `${upstream}__echo`, arguments: { text: 'hi' } })
    expect(textOf(result)).toBe(`${upstream} hi`)
  },
  resources: async (client, upstream) => {
    const { contents } = await client.readResource({ uri: `${upstream}://one` })
    expect(contents).toEqual([{ uri: `${upstream}://one`, text: `${upstream} read ${upstream}://one` }])
  },
  templates: async (client, upstream) => {
    const { resourceTemplates } = await client.listResourceTemplates()
    expect(resourceTemplates).toContainEqual({ uriTemplate: `${upstream}://all/{id}`, name: 'all' })
    const { contents } = await client.readResource({ uri: `${upstream}://all/7` })
    expect(contents).toEqual([{ uri: `${upstream}://all/7`, text: `${upstream} read ${upstream}://all/7` }])
  },
  prompts: async (client, upstream) => {
    const { messages } = await client.getPrompt({ name: `${upstream}__hello`, arguments: { who: 'Bob' } })
    expect(messages).toEqual([{ role: 'user', content: { type: 'text', text: `${upstream} greets Bob` } }])
  },
  completion: async (client, upstream) => {
    const ref = { type: 'ref/prompt', name: `${upstream}__hello` } as const
    const { completion } = await client.complete({ ref, argument: { name: 'who', value: 'B' } })
    expect(completion.values).toEqual([`${upstream}:B`])
  },
  'links to what is not listed': async (client, upstream) => {
    await client.callTool({ name: `${upstream}__link`, arguments: {} })
    for (const uri of [`file:///${upstream}/unlisted`, `ui://${upstream}/page`])
      expect((await client.readResource({ uri })).contents).toEqual([{ uri, text: `${upstream} read ${uri}` }])
  },
  subscriptions: async (client, upstream, downstream) => {
    const uri = `${upstream}://one`
    const heard = updated.get(client) as string[]
    heard.length = 0
    const listening = downstream.endsWith('2026-07-28')
      ? await client.listen({ resourceSubscriptions: [uri] })
      : await client.subscribeResource({ uri })
    await client.callTool({ name: `${upstream}__touch`, arguments: {} })
    await expect.poll(() => heard[0]).toBe(uri)
    if ('close' in listening) await (listening as { close(): Promise<void> }).close()
    else await client.unsubscribeResource({ uri })
    if (upstream.startsWith('v2')) return
    const followers = async (): Promise<unknown> =>
      textOf(await client.callTool({ name: `${upstream}__touch`, arguments: {} }))
    await expect.poll(followers).toBe('touched 0')
  },
  elicitation: async (client, upstream) => {
    const result = await client.callTool({ name: `${upstream}__ask`, arguments: {} })
    expect(textOf(result)).toBe(cannotAsk(upstream) ? 'nobody asks like that yet' : 'accept Ann')
  },
  'a resource and a prompt that ask': async (client, upstream) => {
    const said = cannotAsk(upstream) ? 'a thought' : 'accept Ann'
    const uri = `${upstream}://asking`
    expect((await client.readResource({ uri })).contents).toEqual([{ uri, text: said }])
    const { messages } = await client.getPrompt({ name: `${upstream}__asking` })
    expect(messages).toEqual([{ role: 'user', content: { type: 'text', text: said } }])
  },
  roots: async (client, upstream) => {
    const result = await client.callTool({ name: `${upstream}__roots`, arguments: {} })
    expect(JSON.parse(String(textOf(result)))).toEqual(roots)
  },
  'progress, all of it in order and before the result,': async (client, upstream) => {
    const told: unknown[] = []
    // The SDK's client delivers only a part of a burst.
    const transport = client.transport as { onmessage: (message: never, ...more: never[]) => void }
    const { onmessage } = transport
    transport.onmessage = (message, ...more) => {
      const { method, params, result } = message as { method?: string; params?: { progress?: number }; result?: object }
      if (method === 'notifications/progress') told.push(params?.progress)
      else if (result) told.push('result')
      onmessage(message, ...more)
    }
    await client.callTool({ name: `${upstream}__burst`, arguments: {} }, { onprogress: () => undefined })
    transport.onmessage = onmessage
    expect(told).toEqual([...Array.from({ length: 50 }, (_, n) => n + 1), 'result'])
  },
  cancellation: async (client, upstream) => {
    const counts = async () => {
      const said = textOf(await client.callTool({ name: `${upstream}__ended`, arguments: {} }))
      const [ended, begun] = String(said).split(' of ').map(Number)
      return { ended, begun }
    }
    const { ended = 0, begun = 0 } = await counts()
    const stop = new AbortController()
    const hangs = client.callTool({ name: `${upstream}__hang`, arguments: {} }, { signal: stop.signal })
    hangs.catch(() => undefined)
    await expect.poll(counts).toEqual({ ended, begun: begun + 1 })
    stop.abort()
    await expect(hangs).rejects.toThrow()
    await expect.poll(counts).toEqual({ ended: ended + 1, begun: begun + 1 })
  },
  sampling: async (client, upstream) => {
    const result = await client.callTool({ name: `${upstream}__think`, arguments: {} })
    expect(textOf(result)).toBe('a thought')
  },
}

for (const downstream of downstreams)
  describe(`a ${downstream} client`, () => {
    for (const upstream of upstreams)
      for (const [feature, check] of Object.entries(features))
        it(`uses ${feature} of ${upstream}`, async () => {
          await check(clients.get(downstream) as Client, upstream, downstream)
        })
  })
