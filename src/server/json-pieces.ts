import type { ServerResponse } from 'node:http'
import type { Message } from '../core/jsonrpc.ts'
import { rawBytes } from '../core/raw-result.ts'
import { listBytes } from './list-cache.ts'

/** A message as JSON: text, or text around a result that stays as the bytes of its server. */
export type Pieces = readonly (string | Buffer)[]

export function piecesOf(message: object): Pieces {
  const { id, result } = message as Message
  if (typeof result !== 'object' || result === null) return [serializeMessage(message)]
  const bytes = rawBytes(result)
  if (!bytes) return withList(id, result) ?? [serializeMessage(message)]
  return [`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`, ...bytes, '}']
}

/** An answer with a list that is cached as bytes. */
function withList(id: unknown, result: object): Pieces | undefined {
  if (!('tools' in result)) return undefined
  const { tools, ...rest } = result
  const bytes = listBytes(tools)
  if (!bytes) return undefined
  const more = JSON.stringify(rest)
  const end = more === '{}' ? '}}' : `,${more.slice(1)}}`
  return [`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"tools":`, bytes, end]
}

/** A value that JSON cannot represent becomes an error, so that the client does not wait. */
function serializeMessage(message: object): string {
  try {
    return JSON.stringify(message)
  } catch {
    const { id } = message as Message
    const error = { code: -32603, message: 'Internal error: the answer cannot be represented as JSON' }
    return JSON.stringify({ jsonrpc: '2.0', ...(id === undefined ? {} : { id }), error })
  }
}

/** Writes a message as the body of a response, and ends it. */
export function writeMessage(res: ServerResponse, message: object): void {
  const pieces = piecesOf(message)
  const [only] = pieces
  if (pieces.length === 1) return void res.end(only)
  const bytes = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
  res.setHeader('content-length', bytes)
  res.cork()
  for (const piece of pieces) res.write(piece)
  res.uncork()
  res.end()
}
