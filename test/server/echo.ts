import { type IncomingHttpHeaders, type IncomingMessage, request as nodeRequest } from 'node:http'
import { connect as connectSocket } from 'node:net'
import { Server } from '@modelcontextprotocol/server'
import type { Clock } from '../../src/core/clock.ts'
import { createLog, type Log } from '../../src/core/log.ts'
import type { ModernHooks } from '../../src/server/modern-2026/modern-http.ts'
import { type HttpOptions, type HttpServer, serveHttp } from '../../src/server/serve-http.ts'
import type { NewConnection, ServerFactory } from '../../src/server/server-factory.ts'
import { type HttpSettings, httpOptions } from '../../src/server/server-options.ts'

export const TOKEN = 'test-token-of-sufficient-length'

/** The token of the client. */
export const LOCAL = { principal: 'local', profile: 'default', roles: [], named: true }

export const settings: HttpSettings = httpOptions.parse({ port: 0, sessionIdleMs: 60_000 })

export interface EchoFactory {
  readonly make: ServerFactory
  /** Every created instance, in order. */
  readonly made: NewConnection[]
  /** Live instances, newest last. */
  readonly servers: Server[]
  readonly disposed: () => number
  /** Calls of `wait` that the server received. */
  readonly waits: () => number
  /** Calls of `wait` that were aborted. */
  readonly aborted: () => number
}

/**
 * Low-level servers with four tools: `echo` answers, `steps` reports progress first, `ask` asks the user, `wait` waits
 * for `ms`.
 */
export function echoFactory(): EchoFactory {
  const made: NewConnection[] = []
  const servers: Server[] = []
  let disposed = 0
  let waits = 0
  let aborted = 0
  const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })
  return {
    made,
    servers,
    disposed: () => disposed,
    waits: () => waits,
    aborted: () => aborted,
    make(connection) {
      made.push(connection)
      const server = new Server(
        { name: 'echo', version: '1.0.0' },
        { capabilities: { tools: { listChanged: true }, logging: {} } },
      )
      server.setRequestHandler('tools/list', () => ({
        tools: ['echo', 'steps', 'ask', 'wait'].map((name) => ({
          name,
          description: `The ${name} tool`,
          inputSchema: { type: 'object' as const },
        })),
      }))
      server.setRequestHandler('tools/call', async ({ params }, ctx) => {
        const args = params.arguments ?? {}
        if (params.name === 'steps') {
          const progressToken = ctx.mcpReq._meta?.progressToken ?? 'none'
          await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: 1 } })
        }
        if (params.name === 'ask') {
          const requestedSchema = { type: 'object' as const, properties: { color: { type: 'string' as const } } }
          const answer = await ctx.mcpReq.elicitInput({ message: 'Which color?', requestedSchema })
          return text(JSON.stringify(answer))
        }
        if (params.name === 'wait') {
          waits++
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, Number(args.ms))
            ctx.mcpReq.signal.addEventListener('abort', () => {
              aborted++
              clearTimeout(timer)
              resolve()
            })
          })
        }
        return text(String(args.text))
      })
      servers.push(server)
      return {
        server,
        dispose() {
          disposed++
          servers.splice(servers.indexOf(server), 1)
        },
      }
    },
  }
}

export interface Started extends HttpServer {
  readonly echo: EchoFactory
  readonly logged: string[]
}

/** Every identity, subscription and notification as without Pegboard. */
export const plainHooks: ModernHooks = {
  enter: (identity) => identity,
  follow: (_identity, _meta, uris) => ({ acceptedUris: Promise.resolve(uris), stop: () => undefined }),
  followTasks: () => () => undefined,
  listening: () => () => undefined,
}

export async function start(
  clock: Clock,
  more: Partial<HttpOptions> & { readonly set?: Partial<HttpSettings> } = {},
): Promise<Started> {
  const echo = echoFactory()
  const logged: string[] = []
  const log: Log = createLog((line) => logged.push(line), 'debug')
  const { set, ...options } = more
  const server = await serveHttp({
    settings: { ...settings, ...set },
    token: TOKEN,
    factory: echo.make,
    log,
    clock,
    health: () => ({ status: 'ok' }),
    modern: plainHooks,
    ...options,
  })
  return Object.assign(server, { echo, logged })
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The parsed body, if it is JSON. */
  readonly json: {
    readonly id?: unknown
    readonly result?: Record<string, unknown>
    readonly error?: { readonly code: number; readonly message: string; readonly data?: Record<string, unknown> }
  }
}

export interface Ask {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: unknown
  /** Sends no token. */
  readonly anonymous?: boolean
}

const ACCEPT = 'application/json, text/event-stream'

/** One raw request; its response is not read yet. */
export function open(
  url: string,
  { method = 'POST', path = '/mcp', headers = {}, body, anonymous }: Ask,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const req = nodeRequest(new URL(path, url), {
      method,
      agent: false,
      headers: {
        accept: ACCEPT,
        ...(method === 'POST' ? { 'content-type': 'application/json' } : {}),
        ...(anonymous ? {} : { authorization: `Bearer ${TOKEN}` }),
        ...(headers as Record<string, string>),
      },
    })
    req.once('response', resolve)
    req.once('error', reject)
    req.end(body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body))
  })
}

/** One raw request and its whole response. */
export async function ask(url: string, options: Ask): Promise<Answer> {
  const res = await open(url, options)
  let text = ''
  for await (const part of res.setEncoding('utf8')) text += part
  const isJson = res.headers['content-type'] === 'application/json'
  return {
    status: res.statusCode ?? 0,
    headers: res.headers,
    text,
    json: isJson && text !== '' ? JSON.parse(text) : {},
  }
}

/** Reads a stream until `done` returns true for the text so far. */
export async function readUntil(res: IncomingMessage, done: (text: string) => boolean): Promise<string> {
  let text = ''
  for await (const part of res.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    text += part
    if (done(text)) break
  }
  return text
}

export const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}

export const call = (
  id: unknown,
  name: string,
  args: Readonly<Record<string, unknown>> = {},
  meta?: Readonly<Record<string, unknown>>,
) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args, ...(meta ? { _meta: meta } : {}) },
})

export const MODERN = '2026-07-28'

/** A complete request of the 2026 revision: body and matching headers. */
export function modern(
  id: unknown,
  method: string,
  params: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>> = {},
): Ask {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
  }
  const name = typeof params.name === 'string' ? { 'mcp-name': params.name } : {}
  return {
    headers: { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...name, ...headers },
    body: { jsonrpc: '2.0', id, method, params: { ...params, _meta: meta } },
  }
}

/** Opens a session and returns its headers. */
export async function openSession(
  url: string,
  revision = '2025-11-25',
): Promise<{ readonly 'mcp-session-id': string }> {
  const body = { ...initialize, params: { ...initialize.params, protocolVersion: revision } }
  const { headers } = await ask(url, { body })
  const session = { 'mcp-session-id': String(headers['mcp-session-id']) }
  await ask(url, { headers: session, body: { jsonrpc: '2.0', method: 'notifications/initialized' } })
  return session
}

/** Waits until `condition` holds; fails after two seconds. */
export async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 400; i++) {
    if (condition()) return
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error('the condition never held')
}

/** Sends raw bytes and returns all output until the connection ends; `reply` may answer the output so far. */
export function speak(port: number, bytes: string, reply?: (text: string) => string | undefined): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connectSocket(port, '127.0.0.1', () => socket.write(bytes, 'latin1'))
    socket.setEncoding('latin1')
    socket.on('data', (part) => {
      text += part
      const next = reply?.(text)
      if (next !== undefined) socket.write(next)
    })
    // A rejected upload may end with a reset; earlier output counts.
    socket.on('error', () => undefined)
    socket.once('close', () => resolve(text))
  })
}
