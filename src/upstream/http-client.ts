import { setMaxListeners } from 'node:events'
import type { Readable } from 'node:stream'
import { PegboardError } from '../core/errors.ts'
import { readAll } from '../core/read-all.ts'
import { assertReachable, createGuardedAgent, type NetRules } from '../policy/network-rules.ts'
import { isBodyless, toResponse } from '../policy/to-response.ts'
import { mediaTypeOf } from './media-type.ts'

export interface HttpClient {
  readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>
  close(): Promise<void>
}

const REDIRECTS = new Set([300, 301, 302, 303, 307, 308])

/**
 * A `fetch` for one server, with its own keep-alive connections. Node's global one leaks a listener per call on
 * shared abort signals and takes twice as long. Redirects fail with E_REDIRECT_BLOCKED, disallowed addresses with
 * E_SSRF_BLOCKED. Responses other than event streams are read completely.
 * @param maxBytes maximum size of a response
 * @param maxStreamBytes maximum size of an event stream; its reader limits each event
 */
export async function createHttpClient(rules: NetRules, maxBytes: number, maxStreamBytes: number): Promise<HttpClient> {
  // The default export, because bundlers leave the named exports of a CommonJS package undefined.
  const { request } = (await import('undici')).default
  const agent = await createGuardedAgent(rules, {
    // Longer than Node's default of five seconds, so that a pause does not cost a new handshake.
    keepAliveTimeout: 30_000,
    connect: { timeout: 10_000 },
    // Calls have their own timeouts; event streams have none.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return {
    async fetch(url, init = {}) {
      assertReachable(new URL(url), rules)
      // One signal is shared by all requests of a connection.
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
      const stream = mediaTypeOf(answer.headers['content-type']) === 'text/event-stream' && answer.statusCode < 300
      const body = stream ? slicesOf(answer.body, maxStreamBytes) : await readAll(answer.body, maxBytes)
      return toResponse(answer, isBodyless(answer.statusCode) ? null : body)
    },
    close: () => agent.destroy(),
  }
}

/**
 * Bytes passed on in one turn of the event loop, because tiny events take a thousand times as long to parse as to
 * receive.
 */
const SLICE = 16 * 1024

/** Joins tiny chunks of a stream, splits large ones, and yields to other work between them. Fails above `maxBytes`. */
function slicesOf(body: Readable, maxBytes: number): ReadableStream<Uint8Array> {
  // Joins the chunks of one turn.
  const chunks = body[Symbol.asyncIterator]()
  let rest: Buffer = Buffer.alloc(0)
  let total = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        await new Promise(setImmediate)
        if (rest.length === 0) {
          const { done, value } = await chunks.next()
          if (done) return controller.close()
          rest = value as Buffer
          total += rest.length
          if (total > maxBytes) {
            body.destroy()
            throw new Error(`the response is longer than ${maxBytes} bytes`)
          }
        }
        controller.enqueue(rest.subarray(0, SLICE))
        rest = rest.subarray(SLICE)
      },
      cancel: () => void body.destroy(),
    },
    { highWaterMark: 0 },
  )
}
