import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Message } from '../core/jsonrpc.ts'
import { isBatch, parseBatch, parseMessage } from './jsonrpc-message.ts'
import { createHttpError, type HttpError } from './origin-check.ts'

export type BodyResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: HttpError }

const tooLarge = (maxBytes: number): HttpError =>
  createHttpError(413, `Payload too large: the limit is ${maxBytes} bytes`, { headers: { connection: 'close' } })
const tooManyBytes = createHttpError(429, 'Too many bytes of requests at once: send fewer large requests at a time', {
  headers: { connection: 'close', 'retry-after': '1' },
})
const PARSE_ERROR = { code: -32700 }

/** Checks that need no body. */
export function checkBody(req: IncomingMessage, maxBytes: number): HttpError | undefined {
  if (!/^application\/json[ \t]*(?:;|$)/i.test(req.headers['content-type'] ?? ''))
    return createHttpError(415, 'Unsupported media type: Content-Type must be application/json')
  if (!isUtf8Type(req.headers['content-type'] ?? ''))
    return createHttpError(415, 'Unsupported media type: the charset must be utf-8')
  if (req.headers['content-encoding'] !== undefined)
    return createHttpError(415, 'Unsupported media type: send the body uncompressed')
  return Number(req.headers['content-length'] ?? 0) > maxBytes ? tooLarge(maxBytes) : undefined
}

/**
 * Reads the body as text. Rejects when the client goes away meanwhile.
 * @param hold says whether its principal may hold so many more bytes
 */
export function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  maxBytes: number,
  hold: (bytes: number) => boolean,
): Promise<BodyResult<string>> {
  // An HTTP/1.0 client would take it for the answer.
  if (req.headers.expect !== undefined && req.httpVersion === '1.1') res.writeContinue()
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let bytes = 0
    req.on('data', (part: Buffer) => {
      bytes += part.length
      const over = bytes > maxBytes ? tooLarge(maxBytes) : hold(part.length) ? undefined : tooManyBytes
      if (!over) return void parts.push(part)
      req.pause()
      resolve({ ok: false, refusal: over })
    })
    req.once('end', () => {
      const body = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
      if (isUtf8(body)) resolve({ ok: true, value: body.toString('utf8') })
      else resolve({ ok: false, refusal: createHttpError(400, 'Parse error: the body is not UTF-8', PARSE_ERROR) })
    })
    req.once('error', reject)
    req.once('close', () => reject(new Error('the client left before its request was complete')))
  })
}

/** With another charset, a proxy may have read other text. */
const isUtf8Type = (type: string): boolean =>
  [...type.matchAll(/;\s*charset\s*=\s*"?([^\s";]*)/gi)].every(([, charset = '']) => /^utf-?8$/i.test(charset))

export interface Messages {
  readonly messages: readonly Message[]
  readonly batch: boolean
}

/** Parses a body and checks the envelope of every message. A batch holds 1 to 100 messages. */
export function parseMessages(text: string): BodyResult<Messages> {
  if (!isBatch(text)) {
    const read = parseMessage(text)
    if (read.ok) return { ok: true, value: { messages: [read.message], batch: false } }
    return { ok: false, refusal: createHttpError(400, read.message, { code: read.code, id: read.id }) }
  }
  const read = parseBatch(text)
  if ('ok' in read) return { ok: false, refusal: createHttpError(400, read.message, { code: read.code }) }
  return { ok: true, value: { messages: read, batch: true } }
}
