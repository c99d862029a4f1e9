import type { Message } from '../core/jsonrpc.ts'
import { isRecord } from '../core/record.ts'

export type Read =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly id: string | number | null; readonly code: number; readonly message: string }

const MAX_ID_CHARS = 1_024
const MEMBERS = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error'])
/** What a client says of itself is kept for the session. */
const MAX_OPENING_CHARS = 64 * 1024

/** Parses a line and checks its envelope: one message, `jsonrpc: "2.0"`, an id that is a string or an integer. */
export function readMessage(line: string): Read {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return refuse(null, -32700, 'Parse error: the line is not JSON')
  }
  if (Array.isArray(value)) return refuse(null, -32600, 'Invalid request: batch not supported, send one message a line')
  if (typeof value !== 'object' || value === null) return refuse(null, -32600, 'Invalid request: an object is required')
  const message = value as Record<string, unknown>
  const id = message.id
  const legalId =
    (typeof id === 'string' && id.length <= MAX_ID_CHARS) || (typeof id === 'number' && Number.isSafeInteger(id))
  const isCall = typeof message.method === 'string'
  if ('id' in message && !legalId && isCall)
    return refuse(null, -32600, 'Invalid request: id must be a string or an integer')
  const known = legalId ? id : null
  if (message.jsonrpc !== '2.0') return refuse(known, -32600, 'Invalid request: jsonrpc must be "2.0"')
  if (!isCall && !('result' in message) && !('error' in message))
    return refuse(known, -32600, 'Invalid request: method is required')
  const foreign = Object.keys(message).find((key) => !MEMBERS.has(key))
  if (foreign !== undefined)
    return refuse(known, -32600, `Invalid request: unknown member ${JSON.stringify(foreign.slice(0, 40))}`)
  if (isCall && ('result' in message || 'error' in message))
    return refuse(known, -32600, 'Invalid request: both a request and a response')
  if (message.method === 'initialize' && line.length > MAX_OPENING_CHARS)
    return refuse(known, -32600, `Invalid request: initialize exceeds ${MAX_OPENING_CHARS} characters`)
  const params = message.params
  if (params !== undefined && (typeof params !== 'object' || params === null || Array.isArray(params)))
    return refuse(known, -32600, 'Invalid request: params must be an object')
  // Whoever reads the rest of it would drop it without a word.
  const meta = isRecord(params) ? params['_meta'] : undefined
  if (meta !== undefined && !isRecord(meta)) return refuse(known, -32602, 'Invalid params: _meta must be an object')
  return { ok: true, message: message as unknown as Message }
}

const refuse = (id: string | number | null, code: number, message: string): Read => ({ ok: false, id, code, message })
