import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectTo, type StreamTransport } from '../client.ts'
import { cli, place, serveHttp } from '../process.ts'
import { until } from '../upstream/host.ts'

const root = join(import.meta.dirname, '../..')
const optional = (file: string): string => join(root, 'test/optional/node_modules', file)
const supergateway = optional('supergateway/dist/index.js')
const mcpProxy = optional('mcp-proxy/dist/bin/mcp-proxy.mjs')
const mcpRemote = optional('mcp-remote/dist/proxy.js')
const missing = [supergateway, mcpProxy, mcpRemote].some((file) => !existsSync(file))
const scripted = join(root, 'test/fixtures/upstreams/scripted.mjs')

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  return port
}

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })

interface Peer {
  readonly port: number
  restart(): Promise<void>
}

/** A third-party proxy; its process group ends with the test. */
async function peer(program: string, args: (port: number) => readonly string[]): Promise<Peer> {
  const port = await freePort()
  let child: ChildProcess
  let output = ''
  const start = async (): Promise<void> => {
    child = spawn(process.execPath, [program, ...args(port)], { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += chunk))
    for (let tries = 0; !(await listens(port)); tries++) {
      if (tries > 150) throw new Error(`${program} does not listen: ${output}`)
      await sleep(100)
    }
  }
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    process.kill(-Number(child.pid), 'SIGKILL')
    await ended
  }
  onTestFinished(() => stop())
  await start()
  return {
    port,
    async restart() {
      await stop()
      await start()
    },
  }
}

const said = (result: Answer): string => result.content[0].text

/** Calls until a call succeeds after the proxy is back. A proxy that was away for long is retried within a minute. */
async function inTheEnd(call: () => Promise<Answer>, withinMs = 75_000): Promise<Answer> {
  const end = performance.now() + withinMs
  for (;;) {
    const result = await call().catch((error: unknown) => ({ isError: true, content: [{ text: String(error) }] }))
    if (!result.isError || performance.now() > end) return result
    await sleep(100)
  }
}

interface Behind {
  readonly name: string
  readonly program: string
  readonly args: (port: number) => readonly string[]
  readonly path: string
  readonly transport: 'http' | 'sse'
  /** It starts a child per request, so no state survives a request. */
  readonly forgetful?: boolean
}

const command = `${process.execPath} ${scripted}`
const BEHIND: readonly Behind[] = [
  {
    name: 'supergateway as HTTP+SSE',
    program: supergateway,
    args: (port) => ['--stdio', command, '--port', String(port), '--logLevel', 'none'],
    path: '/sse',
    transport: 'sse',
  },
  {
    name: 'supergateway as Streamable HTTP with sessions',
    program: supergateway,
    args: (port) => [
      ...['--stdio', command, '--port', String(port), '--logLevel', 'none'],
      ...['--outputTransport', 'streamableHttp', '--stateful'],
    ],
    path: '/mcp',
    transport: 'http',
  },
  {
    name: 'supergateway as Streamable HTTP without sessions',
    program: supergateway,
    args: (port) => [
      ...['--stdio', command, '--port', String(port), '--logLevel', 'none'],
      ...['--outputTransport', 'streamableHttp'],
    ],
    path: '/mcp',
    transport: 'http',
    forgetful: true,
  },
  {
    name: 'mcp-proxy as HTTP+SSE',
    program: mcpProxy,
    args: (port) => ['--host', '127.0.0.1', '--port', String(port), '--', process.execPath, scripted],
    path: '/sse',
    transport: 'sse',
  },
  {
    name: 'mcp-proxy as Streamable HTTP',
    program: mcpProxy,
    args: (port) => ['--host', '127.0.0.1', '--port', String(port), '--', process.execPath, scripted],
    path: '/mcp',
    transport: 'http',
  },
]

// In CI the packages must be installed, so the tests run and fail without them.
const odd = describe.skipIf(missing && !process.env['CI'])

odd.each(BEHIND)('a server behind $name', { timeout: 180_000 }, ({ program, args, path, transport, forgetful }) => {
  it('a server behind a proxy is listed, runs, reports, fails, is cancelled, and reconnects when the proxy does', async () => {
    const proxy = await peer(program, args)
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      mcpServers: { far: { url: `http://127.0.0.1:${proxy.port}${path}`, start: 'background' } },
    })
    await until(
      () => app.upstreams.status()[0]?.state === 'ready',
      20_000,
      () => JSON.stringify(app.upstreams.status()),
    )
    expect(app.upstreams.status()[0]?.transport).toBe(transport)
    const client = await connectTo(app)
    onTestFinished(() => client.close())
    const call = (name: string, input = {}, more = {}): Promise<Answer> =>
      client.callTool({ name: `far__${name}`, arguments: input }, { timeout: 15_000, ...more })

    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('far__echo')
    expect(said(await call('echo', { text: 'hello' }))).toBe('hello')
    expect(await call('get_content')).toMatchObject({
      structuredContent: { n: 1, null: null, deep: [{ a: 1 }] },
      content: expect.arrayContaining([{ type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }]),
    })

    expect(said(await call('burst', { count: 5, ms: 30 }, { onprogress: () => undefined }))).toBe('done')
    const { received } = client.transport as unknown as StreamTransport
    const progress = received.filter(({ method }) => method === 'notifications/progress')
    expect(progress.map(({ params }) => params?.['progress'])).toEqual([1, 2, 3, 4, 5])

    const failed = await call('fail').catch((error: unknown) => ({ content: [{ text: String(error) }] }))
    expect(said(failed)).toContain('no such thing')

    const stop = new AbortController()
    const hung = call('hang', {}, { signal: stop.signal })
    setTimeout(() => stop.abort(), 300)
    await expect(hung).rejects.toThrow()
    if (!forgetful) {
      for (let tries = 0; said(await call('list_cancelled')) === '[]'; tries++) {
        expect(tries, 'the cancellation arrives').toBeLessThan(50)
        await sleep(50)
      }
    }

    await proxy.restart()
    expect(said(await inTheEnd(() => call('echo', { text: 'again' })))).toBe('again')
  })
})

const fixture = {
  exposure: { mode: 'direct' },
  mcpServers: { near: { command: process.execPath, args: [scripted], start: 'background' } },
}

/** Operations that a client in front of a proxy in front of Pegboard must be able to do. */
async function worksThrough(client: Client): Promise<void> {
  const call = (name: string, input = {}, more = {}): Promise<Answer> =>
    client.callTool({ name, arguments: input }, { timeout: 15_000, ...more })
  expect(said(await inTheEnd(() => call('near__echo', { text: 'through' })))).toBe('through')
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain('near__echo')
  const progress: number[] = []
  const counted = await call(
    'near__burst',
    { count: 3, ms: 50 },
    { onprogress: (at: Answer) => progress.push(at.progress) },
  )
  expect(said(counted)).toBe('done')
  expect(progress).toEqual([1, 2, 3])
  expect(said(await call('near__echo', { wrong: 1, text: 'extra' }))).toBe('extra')
  expect(said(await call('search_tools', {}))).toMatch(/^E_VALIDATION: /)
  const stop = new AbortController()
  const hung = call('near__hang', {}, { signal: stop.signal })
  setTimeout(() => stop.abort(), 300)
  await expect(hung).rejects.toThrow()
  for (let tries = 0; said(await call('near__list_cancelled')) === '[]'; tries++) {
    expect(tries, 'the cancellation arrives').toBeLessThan(50)
    await sleep(50)
  }
}

odd('a client that speaks stdio through mcp-remote', { timeout: 180_000 }, () => {
  it('a client behind a proxy uses Pegboard over HTTP with its token', async () => {
    const here = place(fixture)
    const { url, token, child } = await serveHttp(here)
    const client = new Client({ name: 'near', version: '1' }, { versionNegotiation: { mode: 'legacy' } })
    await client.connect(
      new StdioClientTransport({
        command: process.execPath,
        args: [mcpRemote, url, '--header', `Authorization: Bearer ${token}`, '--transport', 'http-only'],
        env: { PATH: String(process.env['PATH']), HOME: here.dir, MCP_REMOTE_CONFIG_DIR: temporaryFolder() },
        stderr: 'ignore',
      }),
    )
    onTestFinished(() => client.close())
    await worksThrough(client)

    // Pegboard restarts at the same address with the same token, and does not know the proxy's session.
    child.kill('SIGTERM')
    await once(child, 'exit')
    expect((await serveHttp(here, new URL(url).port)).token).toBe(token)
    const call = () => client.callTool({ name: 'near__echo', arguments: { text: 'new' } }, { timeout: 15_000 })
    expect(said(await inTheEnd(call))).toBe('new')
  })
})

odd('a client that speaks HTTP through mcp-proxy', { timeout: 180_000 }, () => {
  it.each(['legacy', 'auto'] as const)(
    'a client uses Pegboard on stdio through a proxy (%s), also after the proxy restarts',
    async (mode) => {
      const here = place(fixture)
      const proxy = await peer(mcpProxy, (port) => [
        ...['--host', '127.0.0.1', '--port', String(port), '--'],
        ...[process.execPath, cli, 'serve', '--stdio', '--config', here.config],
      ])
      const open = async (): Promise<Client> => {
        const client = new Client({ name: 'far', version: '1' }, { versionNegotiation: { mode } })
        await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${proxy.port}/mcp`)))
        onTestFinished(() => client.close())
        return client
      }
      await worksThrough(await open())
      await proxy.restart()
      const again = await open()
      const result = await inTheEnd(() =>
        again.callTool({ name: 'near__echo', arguments: { text: 'once more' } }, { timeout: 15_000 }),
      )
      expect(said(result)).toBe('once more')
    },
  )
})
