import { PassThrough, type Readable, type Writable } from 'node:stream'
import { Client, type ClientOptions, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { onTestFinished } from 'vitest'
import type { App } from '../src/app/app.ts'
import { systemClock } from '../src/core/clock.ts'
import { serveOnStdio } from '../src/server/serve-stdio.ts'
import type { Answer } from './app.ts'

/** An SDK transport for MCP lines over a pair of streams. */
export class StreamTransport {
  onmessage?: (message: never) => void
  onclose?: () => void
  onerror?: (error: Error) => void
  /** Every message in order of arrival, because the SDK's client loses progress that arrives together with a result. */
  readonly received: Array<{ method?: string; params?: Record<string, unknown> }> = []
  readonly #input: Readable
  readonly #output: Writable
  #rest = ''
  constructor(input: Readable, output: Writable) {
    this.#input = input
    this.#output = output
  }
  async start(): Promise<void> {
    this.#input.setEncoding('utf8')
    this.#input.on('data', (chunk: string) => {
      const lines = (this.#rest + chunk).split('\n')
      this.#rest = lines.pop() ?? ''
      for (const line of lines.filter(Boolean)) {
        const message = JSON.parse(line) as (typeof this.received)[number]
        this.received.push(message)
        this.onmessage?.(message as never)
      }
    })
    this.#input.on('end', () => this.onclose?.())
  }
  async send(message: unknown): Promise<void> {
    this.#output.write(`${JSON.stringify(message)}\n`)
  }
  async close(): Promise<void> {
    this.#output.end()
    this.onclose?.()
  }
}

export type Era = 'legacy' | 'modern'

/**
 * Connects the SDK's client to an app as over stdio, but in this process.
 * @param name that it reports
 */
export async function connectTo(
  app: App,
  era: Era = 'legacy',
  options: ClientOptions = {},
  profile = 'default',
  name = 'test-client',
): Promise<Client> {
  const up = new PassThrough()
  const down = new PassThrough()
  const connection = serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down, profile })
  void connection.closed.then(() => down.end())
  const client = createClient(era, options, name)
  await client.connect(new StreamTransport(down, up) as never)
  return client
}

const createClient = (era: Era, options: ClientOptions, name: string): Client =>
  new Client(
    { name, version: '1.0.0' },
    { ...options, versionNegotiation: { mode: era === 'modern' ? { pin: '2026-07-28' } : 'legacy' } },
  )

/**
 * Connects the SDK's client over Streamable HTTP; closed with the test.
 * @param url of the MCP endpoint, such as `http://127.0.0.1:8787/mcp`
 */
export async function connectOverHttp(
  url: string | URL,
  token?: string,
  era: Era = 'legacy',
  options: ClientOptions = {},
  name = 'test-client',
): Promise<Client> {
  const client = createClient(era, options, name)
  const requestInit = token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
  onTestFinished(() => client.close().catch(() => undefined))
  return client
}

/** The answer to a call: its result, or its JSON-RPC error. */
export async function callTool(client: Client, ...call: Parameters<Client['callTool']>): Promise<Answer> {
  try {
    return await client.callTool(...call)
  } catch (error) {
    const { code, message, data } = error as { code?: unknown; message?: string; data?: unknown }
    if (typeof code !== 'number') throw error
    return { error: { code, message, data } }
  }
}

/** Sends one 2026-era request as raw bytes, so that no SDK answers questions. */
export async function postModern(
  url: string,
  token: string,
  method: string,
  params: Record<string, unknown>,
  capabilities: object,
): Promise<Answer> {
  const name = String(params['name'] ?? params['uri'] ?? params['taskId'])
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      'mcp-name': name,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: {
        ...params,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': capabilities,
        },
      },
    }),
  })
  const text = await response.text()
  return JSON.parse(text.startsWith('{') ? text : (/^data: (.*"(?:result|error)".*)$/m.exec(text)?.[1] ?? 'null'))
}
