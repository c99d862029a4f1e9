import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { readConfig } from '../../src/config/load-config.ts'
import { systemClock } from '../../src/core/clock.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { type Answer, startApp } from '../app.ts'
import { connectOverHttp, connectTo } from '../client.ts'
import { place, serveHttp, talkTo } from '../process.ts'
import { scripted } from '../upstream/host.ts'

const LONG = 'long '.repeat(4_000)
const EXACT = `{"content": [{"type":"text","text":"${LONG}"}],  "structuredContent":{"n":1234567890123456789, "f":1.0}}`

const initialize = {
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}

const counted = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
/** Starts the given program with a Node that cannot evaluate code from strings. */
const WITHOUT_EVALUATION = `const [node, ...args] = process.argv.slice(1)
const child = require('node:child_process').spawn(node, ['--disallow-code-generation-from-strings', ...args], { stdio: 'inherit' })
child.once('exit', (code) => process.exit(code ?? 1))
process.once('SIGTERM', () => child.kill())`

/** A 2025-era client that sees raw lines. */
async function linesOf(app: App) {
  const up = new PassThrough()
  const down = new PassThrough()
  serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
  const lines: string[] = []
  const waiting = new Map<number, (line: string) => void>()
  let rest = ''
  let last = 0
  down.setEncoding('utf8')
  down.on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) {
      lines.push(line)
      const id = Number(/^\{"jsonrpc":"2.0","id":(\d+),/.exec(line)?.[1])
      waiting.get(id)?.(line)
    }
  })
  const ask = (message: object): Promise<string> =>
    new Promise((resolve) => {
      waiting.set(++last, resolve)
      up.write(`${JSON.stringify({ jsonrpc: '2.0', id: last, ...message })}\n`)
    })
  await ask(initialize)
  const call = (name: string, args: object, more: object = {}): Promise<string> =>
    ask({ method: 'tools/call', params: { name, arguments: args, ...more } })
  return { lines, ask, call }
}

const textOf = ({ content }: Answer): unknown => content[0].text

const settingsWith = (server: object) => ({
  exposure: { mode: 'direct' },
  mcpServers: { s: { ...scripted(), ...server } },
})

async function appWith(settings: object = {}, server: object = {}) {
  const { app } = await startApp({ ...settingsWith(server), ...settings })
  await app.settled(20_000)
  return app
}

describe('a large result for a client of the 2025 era', () => {
  it('is passed on unchanged, by name and through execute_tool, with all digits of its numbers', async () => {
    const { call } = await linesOf(await appWith())
    expect(await call('s__answer', { json: EXACT })).toBe(`{"jsonrpc":"2.0","id":2,"result":${EXACT}}`)
    const through = await call('execute_tool', { name: 's__answer', params: { json: EXACT } })
    expect(through).toBe(`{"jsonrpc":"2.0","id":3,"result":${EXACT}}`)
    expect(await call('s__answer', { json: '{"content":[],"n":1234567890123456789}' })).toContain('1234567890123456789')
  })

  it('loses data of the previous hop, and keeps the rest', async () => {
    const { call } = await linesOf(await appWith())
    const meta = '{"io.modelcontextprotocol/serverInfo":{"name":"x"},"kept":1}'
    const line = await call('s__answer', {
      json: `{"content":[],"a":"${LONG}","resultType":"complete","_meta":${meta}}`,
    })
    expect(JSON.parse(line).result).toEqual({ content: [], a: LONG, _meta: { kept: 1 } })
  })

  it('keeps its position among other answers of the same turn', async () => {
    const { call } = await linesOf(await appWith())
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        n % 2 ? call('s__answer', { json: EXACT }) : call('s__echo', { text: String(n) }),
      ),
    )
    for (const [n, line] of answers.entries())
      expect(n % 2 ? line.includes(EXACT) : JSON.parse(line).result.content[0].text === String(n)).toBe(true)
  })

  it('can be read by a client of the 2026 era', async () => {
    const client = await connectTo(await appWith(), 'modern')
    const result = await client.callTool({ name: 's__answer', arguments: { json: EXACT } })
    expect(result.content).toEqual([{ type: 'text', text: LONG }])
    await client.close()
  })

  it('is unchanged over HTTP too, as JSON and as an event', async () => {
    const served = await serveHttp(place({ exposure: { mode: 'direct' }, mcpServers: { s: scripted() } }))
    const post = async (message: object, headers: object = {}): Promise<Response> =>
      fetch(served.url, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${served.token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...headers,
        },
        body: JSON.stringify({ jsonrpc: '2.0', ...message }),
      })
    const opened = await post({ id: 1, ...initialize })
    const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') }
    await post({ method: 'notifications/initialized' }, session)
    const call = (id: number, name: string, args: object, more: object = {}): Promise<Response> =>
      post({ id, method: 'tools/call', params: { name, arguments: args, ...more } }, session)
    let plain = ''
    for (let tries = 0; tries < 100 && !plain.includes(LONG); tries++) {
      plain = await (await call(2 + tries, 's__answer', { json: EXACT })).text()
      if (!plain.includes(LONG)) await new Promise((resolve) => setTimeout(resolve, 50))
    }
    expect(plain.endsWith(`"result":${EXACT}}`)).toBe(true)
    const stream = await call(500, 's__burst', { count: 500 }, { _meta: { progressToken: 'mine' } })
    const told = [...(await stream.text()).matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? ''))
    expect(told.map(({ params, result }) => params?.progress ?? result.content[0].text)).toEqual([
      ...Array.from({ length: 500 }, (_, n) => n + 1),
      'done',
    ])
  })
})

describe('a result over the limit', () => {
  it('of eleven megabytes fails only its own call; the server and its other calls continue [UPS-08]', async () => {
    const { call } = await linesOf(await appWith({ execution: { maxResultBytes: 2 * 1024 * 1024 } }))
    const textOf = async (line: Promise<string>) => JSON.parse(await line).result.content[0].text
    const pid = await textOf(call('s__get_pid', {}))
    const [huge, ...others] = await Promise.all([
      call('s__huge', { bytes: 11 * 1024 * 1024 }),
      ...Array.from({ length: 5 }, () => textOf(call('s__echo', { text: 'beside' }))),
    ])
    const { isError, structuredContent } = JSON.parse(huge).result
    expect(isError).toBe(true)
    expect(structuredContent.error).toMatchObject({
      code: 'E_TOO_LARGE',
      message: expect.stringMatching(/^s answered with 115344\d\d bytes\.$/),
      hint: 'Ask for a part, or raise execution.maxResultBytes.',
    })
    expect(others).toEqual(Array.from({ length: 5 }, () => 'beside'))
    expect(await textOf(call('s__get_pid', {}))).toBe(pid)
  })

  it('can be allowed by a setting', async () => {
    const { call } = await linesOf(await appWith({ execution: { maxResultTokens: 0 } }))
    expect((await call('s__huge', { bytes: 11 * 1024 * 1024 })).length).toBeGreaterThan(11 * 1024 * 1024)
  })

  it('of nesting depth fails only its own call', async () => {
    const { call } = await linesOf(await appWith())
    const line = await call('s__answer', { json: `{"content":[],"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}` })
    expect(JSON.parse(line)).toMatchObject({ error: { code: -32603 } })
    expect(await call('s__echo', { text: 'still here' })).toContain('still here')
  })
})

describe('progress', () => {
  it('in a burst reaches a stdio client completely, in order and before the result', async () => {
    const { lines, call } = await linesOf(await appWith())
    await call('s__burst', { count: 500 }, { _meta: { progressToken: 7 } })
    const told = lines.map((line) => JSON.parse(line)).filter(({ method, id }) => method || id === 2)
    expect(told.map(({ params, result }) => params?.progress ?? result.content[0].text)).toEqual([
      ...Array.from({ length: 500 }, (_, n) => n + 1),
      'done',
    ])
  })
})

describe('a server that hangs', () => {
  it('uses only its own slots, and its queue is limited', async () => {
    const app = await appWith({}, { maxConcurrent: 4, maxQueued: 2 })
    const { call } = await linesOf(app)
    const stuck = Array.from({ length: 6 }, () => call('s__hang', {}))
    const refused = JSON.parse(await call('s__hang', {})).result.structuredContent.error
    expect(refused).toMatchObject({
      code: 'E_OVERLOADED',
      retryable: true,
      hint: 'Try again later, or raise mcpServers.s.maxQueued.',
    })
    expect(await call('hello__hello', { name: 'Ada' })).toContain('Ada')
    await app.stop()
    for (const line of await Promise.all(stuck)) expect(line).toContain('E_SHUTTING_DOWN')
  })

  it('has the slots of the settings after a reload', async () => {
    const { app, dir } = await startApp(settingsWith({ maxConcurrent: 1, maxQueued: 0 }))
    await app.settled(20_000)
    const { call } = await linesOf(app)
    const hang = async () => JSON.parse(await call('s__hang', {})).result.structuredContent.error.code
    const stuck = [hang()]
    expect(await hang()).toBe('E_OVERLOADED')
    const more = JSON.stringify(settingsWith({ maxConcurrent: 3, maxQueued: 0 }))
    await app.reload(
      readConfig(more, join(dir, 'mcp.config.json'), {
        env: { PATH: process.env.PATH, HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') },
        cwd: dir,
      }).config,
    )
    // Calls that began before do not count.
    stuck.push(hang(), hang(), hang())
    expect(await hang()).toBe('E_OVERLOADED')
    await app.stop()
    expect(new Set(await Promise.all(stuck))).toEqual(new Set(['E_SHUTTING_DOWN']))
  })

  /** Answers calls, but no reads. */
  const unread = `
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {}, resources: {}, prompts: {}, completions: {} }, serverInfo: { name: 'u', version: '1' } },
    'tools/list': { tools: [{ name: 'hi', inputSchema: { type: 'object' } }] },
    'resources/list': { resources: [{ uri: 'u://1', name: 'one' }] },
    'prompts/list': { prompts: [{ name: 'p' }] },
    'tools/call': { content: [{ type: 'text', text: 'hi' }] },
  }
  if (id === undefined || method === 'resources/read') return
  const answer = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'no' } }
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...answer }) + '\\n')
})`

  it('uses its call slots for reads, prompts and completions, and rejects what exceeds its queue', async () => {
    const app = await appWith({}, { command: process.execPath, args: ['-e', unread], maxConcurrent: 1, maxQueued: 1 })
    const client = await connectTo(app)
    const given = new AbortController()
    const reads = Array.from({ length: 3 }, () => client.readResource({ uri: 'u://1' }, { signal: given.signal }))
    const full = 'E_OVERLOADED: 1 calls are running and 1 wait.'
    // One is running, one waits.
    expect(await Promise.race(reads.map((read) => read.catch(({ message }) => message)))).toContain(full)
    await expect(client.getPrompt({ name: 's__p' })).rejects.toThrow(full)
    const completing = { ref: { type: 'ref/prompt', name: 's__p' }, argument: { name: 'a', value: 'b' } } as const
    await expect(client.complete(completing)).rejects.toThrow(full)
    const hi = async () => textOf(await client.callTool({ name: 's__hi', arguments: {} }))
    expect(await hi()).toContain('raise mcpServers.s.maxQueued')
    given.abort()
    await Promise.allSettled(reads)
    await expect.poll(hi).toBe('hi')
    await client.close()
  })

  it("is stopped by its tool's timeout, which the error names [UPS-02]", async () => {
    const { call } = await linesOf(
      await appWith({}, { timeoutMs: 60_000, tools: { hang_reporting: { timeoutMs: 200 } } }),
    )
    const { error } = JSON.parse(await call('s__hang_reporting', {}, { _meta: { progressToken: 1 } })).result
      .structuredContent
    expect(error).toMatchObject({
      code: 'E_TIMEOUT',
      message: 'mcp_s.hang_reporting took longer than 200 ms.',
      hint: 'Ask for less, or raise mcpServers.s.tools.hang_reporting.timeoutMs.',
    })
    expect(await call('s__list_cancelled', {})).toMatch(/p:\d+/)
  })
})

describe('a client with two calls open', () => {
  it('gets the question of one of them, over HTTP and stdio', async () => {
    const config = { exposure: { mode: 'direct' }, mcpServers: { s: scripted() } }
    const capabilities = { elicitation: {} }
    const answer = async () => ({ action: 'accept' as const, content: { name: 'Ann' } })
    const served = await serveHttp(place(config))
    const { app } = await startApp(config)
    await app.settled(20_000)
    const remote = await connectOverHttp(served.url, served.token, 'legacy', { capabilities })
    for (const client of [remote, await connectTo(app, 'legacy', { capabilities })]) {
      client.setRequestHandler('elicitation/create', answer)
      const asked = async () => client.callTool({ name: 's__ask_person', arguments: {} })
      for (let tries = 0; tries < 100 && (await asked()).isError; tries++)
        await new Promise((resolve) => setTimeout(resolve, 50))
      const abort = new AbortController()
      const hanging = client.callTool({ name: 's__hang', arguments: {} }, { signal: abort.signal })
      expect(JSON.stringify((await asked()).content)).toContain('Ann')
      abort.abort()
      await expect(hanging).rejects.toThrow()
      await client.close()
    }
  })
})

describe('arguments for a server', () => {
  it('are validated by the server only, except for what no reader can represent [SCH-06]', async () => {
    const { call } = await linesOf(await appWith())
    expect(await call('s__echo', { text: { not: 'text' } })).toContain('[object Object]')
    const refused = await call('s__echo', { text: 1, n: 2 ** 60 })
    expect(refused).toContain('E_INT_PRECISION')
  })
})

describe('a call of a server', () => {
  it('compiles no schema, and structured content that violates its output schema is removed', async () => {
    const tool = { name: 'lies', inputSchema: counted, outputSchema: counted }
    const code = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line)
      if (id === undefined) return
      const results = {
        initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'liar', version: '1' } },
        'tools/list': { tools: [${JSON.stringify(tool)}] },
        'tools/call': { content: [], structuredContent: { n: 'no number' } },
      }
      const answer = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'no' } }
      process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...answer }) + '\\n')
    })`
    const here = place({
      exposure: { mode: 'direct' },
      mcpServers: { s: { command: process.execPath, args: ['-e', code] } },
    })
    // Schema compilers generate code and evaluate it.
    const { send, answer } = await talkTo(here, [process.execPath, '-e', WITHOUT_EVALUATION])
    for (const id of [1, 2]) {
      send({ id, method: 'tools/call', params: { name: 's__lies', arguments: { n: 'nor is this' } } })
      const { content, structuredContent } = ((await answer(id)) as Answer).result
      expect(structuredContent).toBeUndefined()
      expect(content).toEqual([
        {
          type: 'text',
          text: "[NOTICE] The structured content was withheld: it does not match the tool's outputSchema (at n). The tool did run.",
          _meta: { 'pegboard/notice': true },
        },
      ])
    }
  })
})
