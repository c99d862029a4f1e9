import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { type Client, type ClientOptions, ProtocolError } from '@modelcontextprotocol/client'
import { describe, expect, it, vi } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { systemClock } from '../../src/core/clock.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { type Answer, serveAppOverHttp, startApp, temporaryFolder } from '../app.ts'
import { connectOverHttp, connectTo, type Era } from '../client.ts'
import { ask, call, initialize, open, readUntil } from './echo.ts'

/** A 2025 server that logs, asks and fails as its tools say. */
const SERVER = `
import { createInterface } from 'node:readline'
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
const open = new Map()
let asked = 0
const ask = () => new Promise((resolve) => {
  open.set('q' + ++asked, resolve)
  send({ id: 'q' + asked, method: 'elicitation/create', params: { message: 'Your name?', requestedSchema: { type: 'object', properties: {} } } })
})
const text = (value) => ({ content: [{ type: 'text', text: JSON.stringify(value) }] })
const log = (data) => send({ method: 'notifications/message', params: { level: 'info', data } })
const tools = {
  log: () => (log({ api_key: 'canary' }), text('logged')),
  log_later: () => (setTimeout(() => log({ api_key: 'canary' }), 100), text('soon')),
  ask: async () => text(await ask()),
  steps: (token) => (send({ method: 'notifications/progress', params: { progressToken: token, progress: 1 } }), text('done')),
}
const answers = {
  initialize: () => ({ protocolVersion: '2025-06-18', capabilities: { tools: {}, logging: {} }, serverInfo: { name: 's', version: '1' } }),
  'tools/list': () => ({ tools: Object.keys(tools).map((name) => ({ name, description: 'Does ' + name, inputSchema: { type: 'object' } })) }),
  'tools/call': ({ name, _meta }) => tools[name](_meta?.progressToken),
}
createInterface({ input: process.stdin }).on('line', async (line) => {
  const message = JSON.parse(line)
  if (message.method === undefined) open.get(message.id)?.(message.error ? { error: message.error } : message.result)
  else if (message.id !== undefined) send({ id: message.id, result: (await answers[message.method]?.(message.params)) ?? {} })
})
`

const PERSON = `export default {
  name: 'person',
  description: 'Asks a person.',
  tools: {
    ask: {
      description: 'Waits, then asks.',
      effect: 'read',
      run: async (_input, ctx) => {
        await new Promise((resolve) => setTimeout(resolve, 500))
        return await ctx.ask({ message: 'Your name?', schema: { type: 'object', properties: {} } })
      },
    },
    wait: {
      description: 'Waits for 2 seconds.',
      effect: 'read',
      run: () => new Promise((resolve) => setTimeout(() => resolve('waited'), 2_000)),
    },
  },
}`

/** Profile `default` passes results unchanged, `strict` removes credentials; requests may name their profile. */
async function gateway(settings: Record<string, unknown> = {}): Promise<App> {
  const dir = temporaryFolder()
  writeFileSync(join(dir, 'server.mjs'), SERVER)
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'person.mjs'), PERSON)
  const { app } = await startApp(
    {
      exposure: { mode: 'direct', primitives: false },
      server: { trustMeta: 'all' },
      profiles: { strict: { policy: { tripwire: 'redact' } }, bare: { use: ['hello'] } },
      mcpServers: {
        s: { command: process.execPath, args: [join(dir, 'server.mjs')], start: 'eager', relay: ['elicitation'] },
      },
      ...settings,
    },
    dir,
  )
  await app.settled(20_000)
  return app
}

async function listenAndConnect(
  app: App,
  era: Era,
  options: ClientOptions = {},
  name = 'test-client',
): Promise<Client> {
  const { url } = await serveAppOverHttp(app)
  return await connectOverHttp(new URL('/mcp', url), undefined, era, options, name)
}

const paths = [
  ['stdio', 'legacy', connectTo],
  ['stdio', 'modern', connectTo],
  ['HTTP', 'legacy', listenAndConnect],
  ['HTTP', 'modern', listenAndConnect],
] as const

describe.each(paths)('a request over %s from a %s client', (transport, era, connect) => {
  const connected = (app: App, options: ClientOptions = {}, name?: string): Promise<Client> =>
    transport === 'stdio'
      ? connectTo(app, era, options, 'default', name)
      : (connect as typeof listenAndConnect)(app, era, options, name)

  it('has log messages of its call inspected with the profile that it names', async () => {
    const client = await connected(await gateway())
    const logged: string[] = []
    client.setNotificationHandler('notifications/message', ({ params }) => void logged.push(JSON.stringify(params)))
    const level = era === 'modern' ? { 'io.modelcontextprotocol/logLevel': 'debug' } : {}
    const call = (meta: Record<string, unknown>) =>
      client.callTool({ name: 's__log', arguments: {}, _meta: { ...level, ...meta } })
    await call({})
    await vi.waitFor(() => expect(logged).toHaveLength(1))
    expect(logged[0]).toContain('canary')
    await call({ 'pegboard/profile': 'strict' })
    await vi.waitFor(() => expect(logged).toHaveLength(2))
    expect(logged[1]).not.toContain('canary')
    await client.close()
  })

  it('gets progress that its server sends together with the result', async () => {
    const client = await connected(await gateway())
    const progress: unknown[] = []
    await client.callTool({ name: 's__steps', arguments: {} }, { onprogress: (step) => progress.push(step) })
    expect(progress).toEqual([{ progress: 1 }])
    await client.close()
  })

  it('gets instructions within the limit of its client', async () => {
    const app = await gateway({
      clients: { small: { maxInstructions: 500 } },
      server: { instructions: 'Read this first. '.repeat(80) },
    })
    const client = await connected(app, {}, 'small')
    expect(client.getInstructions()?.length).toBeLessThanOrEqual(500)
    await client.close()
  })

  it.runIf(era === 'legacy')('keeps the log level when the client sets one that does not exist', async () => {
    const client = await connected(await gateway())
    const logged: unknown[] = []
    client.setNotificationHandler('notifications/message', ({ params }) => void logged.push(params))
    await client.setLoggingLevel('error')
    await expect(client.setLoggingLevel('loud' as never)).rejects.toThrow()
    await client.callTool({ name: 's__log', arguments: {} })
    await client.setLoggingLevel('info')
    await client.callTool({ name: 's__log', arguments: {} })
    await vi.waitFor(() => expect(logged).toHaveLength(1))
    await client.close()
  })

  it.runIf(era === 'legacy')('relays the error of a client that refuses a question, with its data', async () => {
    const client = await connected(await gateway(), { capabilities: { elicitation: { form: {} } } })
    client.setRequestHandler('elicitation/create', () => {
      throw new ProtocolError(-32050, 'busy', { until: 'noon' })
    })
    const { content } = (await client.callTool({ name: 's__ask', arguments: {} })) as Answer
    expect(JSON.parse(content[0].text)).toMatchObject({ error: { code: -32050, data: { until: 'noon' } } })
    await client.close()
  })
})

const asking = { elicitation: { form: {} } }
const opening = (params: Record<string, unknown>) => ({
  ...initialize,
  params: { ...initialize.params, ...params },
})

describe('a 2025 session', () => {
  it('over HTTP has a question sent on the stream of the call that asks it', async () => {
    const { url } = await serveAppOverHttp(await gateway())
    const { headers } = await ask(url, { body: opening({ capabilities: asking }) })
    const session = { 'mcp-session-id': String(headers['mcp-session-id']) }
    const first = open(url, { headers: session, body: call(1, 'person__ask') })
    await new Promise((resolve) => setTimeout(resolve, 100))
    const second = ask(url, { headers: session, body: call(2, 'person__wait') })
    const stream = await first
    expect(await readUntil(stream, (text) => text.includes('elicitation/create'))).toContain('Your name?')
    expect((await second).text).not.toContain('Your name?')
    stream.destroy()
  })

  it('begins with the instructions of the profile that initialize names, on both transports', async () => {
    const app = await gateway()
    const { url } = await serveAppOverHttp(app)
    const body = opening({ _meta: { 'pegboard/profile': 'bare' } })
    const overHttp = (await ask(url, { body })).json.result?.['instructions']
    const [up, down] = [new PassThrough(), new PassThrough()]
    serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
    up.write(`${JSON.stringify(body)}\n`)
    const [line] = (await once(down, 'data')) as [Buffer]
    up.end()
    expect(overHttp).toBe(JSON.parse(String(line)).result.instructions)
  })

  it('has log messages that belong to no request inspected with a profile that has their server', async () => {
    const app = await gateway()
    const client = await connectTo(app, 'legacy', {}, 'bare')
    const logged: string[] = []
    client.setNotificationHandler('notifications/message', ({ params }) => void logged.push(JSON.stringify(params)))
    await client.setLoggingLevel('debug')
    await client.callTool({ name: 's__log_later', arguments: {}, _meta: { 'pegboard/profile': 'strict' } })
    await vi.waitFor(() => expect(logged).toHaveLength(1))
    expect(logged[0]).not.toContain('canary')
    await client.close()
  })
})
