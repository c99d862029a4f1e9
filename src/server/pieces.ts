import type { Message } from '../core/jsonrpc.ts'
import { rawBytes } from '../core/raw.ts'

/** A message as JSON: text, or text around a result that is written as the bytes it came in. */
export type Pieces = readonly (string | Buffer)[]

export function piecesOf(message: object): Pieces {
  const { id, result } = message as Message
  const bytes = typeof result === 'object' && result !== null ? rawBytes(result) : undefined
  if (!bytes) return [written(message)]
  return [`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`, ...bytes, '}']
}

/** What cannot be written, being too deep or a circle, must not keep its request waiting. */
function written(message: object): string {
  try {
    return JSON.stringify(message)
  } catch {
    const { id } = message as Message
    const error = { code: -32603, message: 'Internal error: the answer cannot be written as JSON' }
    return JSON.stringify({ jsonrpc: '2.0', ...(id === undefined ? {} : { id }), error })
  }
}
