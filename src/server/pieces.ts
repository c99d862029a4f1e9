import type { Message } from '../core/jsonrpc.ts'
import { rawBytes } from '../core/raw.ts'
import { listBytes } from './lists.ts'

/** A message as JSON: text, or text around a result that is written as the bytes it came in. */
export type Pieces = readonly (string | Buffer)[]

export function piecesOf(message: object): Pieces {
  const { id, result } = message as Message
  if (typeof result !== 'object' || result === null) return [written(message)]
  const bytes = rawBytes(result)
  if (!bytes) return withList(id, result) ?? [written(message)]
  return [`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`, ...bytes, '}']
}

/** An answer with a list that is kept as bytes. */
function withList(id: unknown, result: object): Pieces | undefined {
  if (!('tools' in result)) return undefined
  const { tools, ...rest } = result
  const bytes = listBytes(tools)
  if (!bytes) return undefined
  const more = JSON.stringify(rest)
  const end = more === '{}' ? '}}' : `,${more.slice(1)}}`
  return [`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"tools":`, bytes, end]
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
