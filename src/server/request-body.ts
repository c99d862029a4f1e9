import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Message } from '../core/jsonrpc.ts'
import { HttpError } from './http-error.ts'
import { isBatch, parseBatch, parseMessage } from './jsonrpc-message.ts'

const tooLarge = (maxBytes: number): HttpError =>
  new HttpError(413, `Payload too large: the limit is ${maxBytes} bytes`, { headers: { connection: 'close' } })

const createTooManyBytes = (): HttpError =>
  new HttpError(429, 'Too many bytes of requests at once: send fewer large requests at a time', {
    headers: { connection: 'close', 'retry-after': '1' },
  })

/** Checks the headers that describe the body. @throws HttpError */
function checkHeaders({ headers }: IncomingMessage, maxBytes: number): void {
  const type = headers['content-type'] ?? ''
  if (!/^application\/json[ \t]*(?:;|$)/i.test(type))
    throw new HttpError(415, 'Unsupported media type: Content-Type must be application/json')
  if (!isUtf8Type(type)) throw new HttpError(415, 'Unsupported media type: the charset must be utf-8')
  if (headers['content-encoding'] !== undefined)
    throw new HttpError(415, 'Unsupported media type: send the body uncompressed')
  if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
}

/**
 * Reads a JSON body as text. Rejects when the client goes away meanwhile.
 * @param reserve returns whether the requests of the principal may use this many more bytes of memory
 * @throws HttpError
 */
export async function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  maxBytes: number,
  reserve: (bytes: number) => boolean,
): Promise<string> {
  checkHeaders(req, maxBytes)
  // An HTTP/1.0 client would take it for the answer.
  if (req.headers.expect !== undefined && req.httpVersion === '1.1') res.writeContinue()
  const body = await new Promise<Buffer>((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    req.on('data', (part: Buffer) => {
      bytes += part.length
      const error = bytes > maxBytes ? tooLarge(maxBytes) : reserve(part.length) ? undefined : createTooManyBytes()
      if (!error) return void chunks.push(part)
      req.pause()
      reject(error)
    })
    req.once('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)))
    req.once('error', reject)
    req.once('close', () => reject(new Error('the client left before its request was complete')))
  })
  if (isUtf8(body)) return body.toString('utf8')
  throw new HttpError(400, 'Parse error: the body is not UTF-8', { code: -32700 })
}

/** With another charset, a proxy may have read other text. */
const isUtf8Type = (type: string): boolean =>
  [...type.matchAll(/;\s*charset\s*=\s*"?([^\s";]*)/gi)].every(([, charset = '']) => /^utf-?8$/i.test(charset))

export interface Messages {
  readonly messages: readonly Message[]
  readonly batch: boolean
}

/** Parses a body and checks the envelope of every message. A batch holds 1 to 100 messages. @throws HttpError */
export function parseMessages(text: string): Messages {
  if (isBatch(text)) {
    const read = parseBatch(text)
    if ('ok' in read) throw new HttpError(400, read.message, { code: read.code })
    return { messages: read, batch: true }
  }
  const read = parseMessage(text)
  if (!read.ok) throw new HttpError(400, read.message, { code: read.code, id: read.id })
  return { messages: [read.message], batch: false }
}
