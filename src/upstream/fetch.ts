import { setMaxListeners } from 'node:events'
import { Readable } from 'node:stream'
import { PegboardError } from '../core/errors.ts'
import { assertReachable, createGuardedAgent, type NetRules } from '../policy/net.ts'

export interface HttpClient {
  readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>
  close(): Promise<void>
}

const MAX_BODY = 64 * 1024 * 1024
const NO_BODY = new Set([101, 204, 205, 304])
const REDIRECTS = new Set([300, 301, 302, 303, 307, 308])

/**
 * A `fetch` for one server, on keep-alive connections of its own. Node's global one leaks a listener a call on shared
 * abort signals and costs twice the time. Redirects are refused with E_REDIRECT_BLOCKED, addresses outside the rules
 * with E_SSRF_BLOCKED; answers other than event streams are read whole.
 * @param maxBytes longest answer, and longest event of an event stream: a longer one is an error; default 64 MiB
 */
export async function createHttpClient(rules: NetRules, maxBytes = MAX_BODY): Promise<HttpClient> {
  // The default export, because a bundler leaves the named ones of a CommonJS package undefined.
  const { request } = (await import('undici')).default
  const agent = await createGuardedAgent(rules, {
    // Longer than Node's own five seconds, so that a pause does not cost a handshake.
    keepAliveTimeout: 30_000,
    connect: { timeout: 10_000 },
    // Calls have deadlines; event streams have none.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return {
    async fetch(url, init = {}) {
      assertReachable(new URL(url), rules)
      // One signal stands for the whole connection, so any number of requests may listen to it.
      if (init.signal) setMaxListeners(0, init.signal)
      const answer = await request(String(url), {
        method: (init.method ?? 'GET') as 'GET',
        headers: { 'accept-encoding': 'identity', ...Object.fromEntries(new Headers(init.headers)) },
        body:
          init.body == null ? null : init.body instanceof URLSearchParams ? String(init.body) : (init.body as string),
        signal: init.signal ?? null,
        dispatcher: agent,
      })
      if (REDIRECTS.has(answer.statusCode) && answer.headers['location'] !== undefined) {
        await answer.body.dump()
        throw new PegboardError(
          'E_REDIRECT_BLOCKED',
          `it redirects to another address (HTTP ${answer.statusCode}), which is not followed`,
        )
      }
      const headers = new Headers()
      for (const [name, value] of Object.entries(answer.headers))
        for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) headers.append(name, one)
      const stream = headers.get('content-type')?.startsWith('text/event-stream') && answer.statusCode < 300
      const body = stream
        ? (Readable.toWeb(answer.body) as ReadableStream<Uint8Array>).pipeThrough(limitEvents(maxBytes))
        : await readAll(answer.body, String(headers.get('content-length') ?? ''), maxBytes)
      return new Response(NO_BODY.has(answer.statusCode) ? null : body, { status: answer.statusCode, headers })
    },
    close: () => agent.destroy(),
  }
}

async function readAll(body: Readable, length: string, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += (chunk as Buffer).length
    if (size > maxBytes || Number(length) > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`)
    chunks.push(chunk as Buffer)
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
}

// Every blank line of an event stream begins with one of these, whichever line ends the server uses.
const BLANK_LINES = ['\n\n', '\n\r', '\r\r']

/** Passes an event stream on until one event is too long: its reader keeps all of an event until the blank line. */
function limitEvents(maxBytes: number): TransformStream<Uint8Array, Uint8Array> {
  let size = 0
  let last = ''
  return new TransformStream({
    transform(chunk, controller) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      const end = Math.max(...BLANK_LINES.map((blank) => bytes.lastIndexOf(blank, undefined, 'latin1')))
      if (end !== -1) size = bytes.length - end
      else size = BLANK_LINES.includes(last + bytes.toString('latin1', 0, 1)) ? bytes.length : size + bytes.length
      if (size > maxBytes) throw new Error(`an event is longer than ${maxBytes} bytes`)
      last = bytes.toString('latin1', bytes.length - 1)
      controller.enqueue(chunk)
    },
  })
}
