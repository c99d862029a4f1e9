import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { describe, expect, it } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { systemClock } from '../../src/core/clock.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { servers, startApp } from '../app.ts'
import { connectTo, StreamTransport } from '../client.ts'
import { makeTool } from '../tools.ts'

/** A client that writes arbitrary lines. */
function rawClient(app: App) {
  const up = new PassThrough()
  const down = new PassThrough()
  const connection = serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
  const lines: string[] = []
  let rest = ''
  down.setEncoding('utf8')
  down.on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts)
  })
  const messages = () => lines.map((line) => JSON.parse(line))
  return {
    connection,
    up,
    write: (text: string) => up.write(text),
    send: (message: object) => up.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`),
    messages,
    async answer(id: number | string | null) {
      for (let tries = 0; tries < 400; tries++) {
        const found = messages().find((message) => message.id === id && message.method === undefined)
        if (found) return found
        await sleep(5)
      }
      throw new Error(`no answer to ${id}; got ${lines.join('\n')}`)
    },
  }
}

const opening = {
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}

async function appWith(
  tools = [makeTool('m.echo', { run: async (input) => valueResult(input), parse: (value) => ({ ok: true, value }) })],
) {
  const { app } = await startApp({
    exposure: { mode: 'direct', primitives: false },
    modules: { hello: { enabled: false }, filesystem: { enabled: false } },
  })
  app.catalog.set({ id: 'm', summary: 'm', origin: 'module', state: 'ready' }, { tools })
  return app
}

async function opened(app: App) {
  const client = rawClient(app)
  client.send(opening)
  await client.answer(0)
  client.send({ method: 'notifications/initialized' })
  return client
}

describe('a client of the 2025 era', () => {
  it('gets the requested revision, or the newest of its era', async () => {
    const app = await appWith()
    const first = rawClient(app)
    first.send(opening)
    expect((await first.answer(0)).result).toMatchObject({
      protocolVersion: '2025-06-18',
      serverInfo: { name: 'pegboard' },
      capabilities: { tools: { listChanged: true } },
    })
    const second = rawClient(app)
    second.send({ ...opening, params: { ...opening.params, protocolVersion: '1999-01-01' } })
    expect((await second.answer(0)).result.protocolVersion).toBe('2025-11-25')
  })

  it('may send anything, and the next message is served', async () => {
    const client = await opened(await appWith())
    client.write('not json\n')
    expect((await client.answer(null)).error.code).toBe(-32700)
    client.write('[{"jsonrpc":"2.0","id":7,"method":"ping"}]\n')
    client.write(`{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call"}\n`)
    client.send({ method: 'notifications/cancelled', params: { requestId: 999 } })
    client.send({ method: 'notifications/cancelled', params: {} })
    client.send({ id: 1, method: 'ping' })
    expect((await client.answer(1)).result).toEqual({})
    expect(client.messages().filter(({ error }) => error?.code === -32600)).toHaveLength(2)
  })

  it('gets an error for every request with an invalid _meta', async () => {
    const client = await opened(await appWith())
    let id = 100
    for (const _meta of ['x', 1, null, [], true])
      for (const method of ['ping', 'tools/list', 'resources/list', 'tools/call', 'server/discover']) {
        client.send({ id: ++id, method, params: { _meta, name: 'list_categories' } })
        expect((await client.answer(id)).error, `${method} ${JSON.stringify(_meta)}`).toEqual({
          code: -32602,
          message: 'Invalid params: _meta must be an object',
        })
      }
  })

  it('that sends a line of 20 MiB gets an error, and the next message is served', async () => {
    const client = await opened(await appWith())
    client.write(`{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"${'y'.repeat(20 * 1024 * 1024)}"}}\n`)
    client.send({ id: 6, method: 'ping' })
    expect((await client.answer(6)).result).toEqual({})
    expect((await client.answer(5)).error).toEqual({
      code: -32600,
      message: 'Invalid request: message exceeds 4194304 bytes',
    })
  })

  it('gets -32601 for an unknown method', async () => {
    const client = await opened(await appWith())
    client.send({ id: 3, method: 'no/such/method' })
    expect((await client.answer(3)).error.code).toBe(-32601)
  })

  it('gets no answer to a cancelled call, and the tool is aborted', async () => {
    let aborted = false
    const slow = makeTool('m.slow', {
      run: (_input, ctx) =>
        new Promise((_resolve, reject) =>
          ctx.signal.addEventListener('abort', () => {
            aborted = true
            reject(ctx.signal.reason)
          }),
        ),
    })
    const client = await opened(await appWith([slow]))
    client.send({ id: 8, method: 'tools/call', params: { name: 'm__slow', arguments: {} } })
    await sleep(20)
    client.send({ method: 'notifications/cancelled', params: { requestId: 8 } })
    client.send({ id: 9, method: 'ping' })
    await client.answer(9)
    expect(aborted).toBe(true)
    expect(client.messages().find(({ id }) => id === 8)).toBeUndefined()
  })

  it('can use resources and prompts in the same session', async () => {
    const client = await opened(await appWith())
    client.send({ id: 1, method: 'tools/list' })
    client.send({ id: 2, method: 'prompts/list' })
    client.send({ id: 3, method: 'resources/list' })
    expect((await client.answer(2)).result.prompts.map(({ name }: { name: string }) => name)).toEqual(['system_prompt'])
    expect((await client.answer(3)).result.resources.map(({ uri }: { uri: string }) => uri)).toEqual([
      'server://status',
      'notifications://inbox',
      'stats://tools',
      'stats://tokens',
    ])
    expect(client.messages().filter(({ id }) => id === 0)).toHaveLength(1)
  })

  it('is notified when its listed tools change, and only then', async () => {
    const app = await appWith()
    const client = await opened(app)
    const told = () => client.messages().filter(({ method }) => method === 'notifications/tools/list_changed').length
    app.catalog.touch()
    await sleep(250)
    expect(told()).toBe(0)
    app.catalog.set({ id: 'n', summary: 'n', origin: 'module', state: 'ready' }, { tools: [makeTool('n.new')] })
    await sleep(250)
    expect(told()).toBe(1)
    client.send({ id: 4, method: 'tools/list' })
    expect((await client.answer(4)).result.tools.map(({ name }: { name: string }) => name)).toEqual([
      'm__echo',
      'n__new',
    ])
  })

  it('ends the connection by disconnecting', async () => {
    const client = await opened(await appWith())
    client.up.end()
    await client.connection.closed
  })
})

describe('the SDK of the 2025 era, version 1', () => {
  it('lists and calls', async () => {
    const app = await appWith()
    const up = new PassThrough()
    const down = new PassThrough()
    serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
    const client = new OldClient({ name: 'old', version: '1.0.0' })
    await client.connect(new StreamTransport(down, up) as never)
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['m__echo'])
    expect((await client.callTool({ name: 'm__echo', arguments: { text: 'hé' } })).structuredContent).toEqual({
      text: 'hé',
    })
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(['system_prompt'])
    await client.close()
  })
})

describe('an error of a tool with an output schema', () => {
  it('is readable for clients that validate errors against the output schema', async () => {
    const output = { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] }
    const fails = makeTool('m.fails', { output, run: () => Promise.reject(new Error('out of paper')) })
    const app = await appWith([fails])
    const up = new PassThrough()
    const down = new PassThrough()
    serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
    const client = new OldClient({ name: 'old', version: '1.0.0' })
    await client.connect(new StreamTransport(down, up) as never)
    await client.listTools()
    const refused = await client.callTool({ name: 'm__fails', arguments: {} })
    expect(refused.isError).toBe(true)
    expect(refused.content).toEqual([
      {
        type: 'text',
        text: "E_TOOL_FAILED: Tool 'm.fails' failed: out of paper. Read the message before you call the tool again, or use another tool.",
      },
    ])
    expect(refused._meta).toMatchObject({ 'pegboard/error': { success: false, error: { code: 'E_TOOL_FAILED' } } })
    await client.close()
  })
})

describe('a result that JSON cannot represent', () => {
  it('becomes an error that the operator can trace', async () => {
    const client = await opened(await appWith([makeTool('m.big', { run: async () => valueResult({ n: 12n }) })]))
    client.send({ id: 1, method: 'tools/call', params: { name: 'm__big', arguments: {} } })
    const { result } = await client.answer(1)
    expect(result.isError).toBe(true)
    expect(result.structuredContent.error).toMatchObject({
      code: 'E_INTERNAL',
      message: 'The result of m__big cannot be sent as JSON.',
    })
    expect(result.structuredContent.error.correlationId).toMatch(/^[0-9a-f-]{36}$/)
  })
})

describe('a client of the 2026 era', () => {
  it('lists and calls, and gets the changes it subscribed to', async () => {
    const app = await appWith()
    const client = await connectTo(app, 'modern')
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['m__echo'])
    expect((await client.callTool({ name: 'm.echo', arguments: { n: 1 } })).structuredContent).toEqual({ n: 1 })
    const { received } = client.transport as unknown as StreamTransport
    const listening = await client.listen({ toolsListChanged: true })
    app.catalog.set({ id: 'n', summary: 'n', origin: 'module', state: 'ready' }, { tools: [makeTool('n.new')] })
    for (
      let tries = 0;
      tries < 100 && !received.some(({ method }) => method === 'notifications/tools/list_changed');
      tries++
    )
      await sleep(10)
    expect(received.some(({ method }) => method === 'notifications/tools/list_changed')).toBe(true)
    await listening.close()
    await client.close()
  })
})

describe("an upstream server's question", () => {
  it('reaches the person behind the calling client, and the answer returns', async () => {
    const everything = { ...servers.everything, relay: ['elicitation', 'sampling'] }
    const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { everything } })
    await app.settled(20_000)
    const client = await connectTo(app, 'legacy', { capabilities: { elicitation: {}, sampling: {}, roots: {} } })
    const asked: string[] = []
    client.setRequestHandler('elicitation/create', (request) => {
      asked.push(request.params.message)
      return { action: 'decline' }
    })
    client.setRequestHandler('sampling/createMessage', () => ({
      role: 'assistant',
      content: { type: 'text', text: 'sampled words' },
      model: 'm',
      stopReason: 'endTurn',
    }))
    const { tools } = await client.listTools()
    const named = (part: string): string => tools.find(({ name }) => name.includes(part))?.name ?? part
    const declined = await client.callTool({ name: named('elicitation'), arguments: {} })
    expect(asked).toHaveLength(1)
    expect(JSON.stringify(declined)).toContain('decline')
    const sampled = await client.callTool({
      name: named('sampling'),
      arguments: { prompt: 'say something', maxTokens: 10 },
    })
    expect(JSON.stringify(sampled)).toContain('sampled words')
    await client.close()
  })
})
