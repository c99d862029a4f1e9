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
  return isRecord(value) && repeatsMember(line, [value], 1) ? repeated : checkMessage(value, line.length)
}

/** The same for messages that came together, as `items` of the list that `text` is. The first that is none is the answer. */
export function checkBatch(
  text: string,
  items: readonly unknown[],
): readonly Message[] | (Read & { readonly ok: false }) {
  const messages: Message[] = []
  for (const item of items) {
    const read = checkMessage(item, text.length)
    if (!read.ok) return read
    messages.push(read.message)
  }
  return repeatsMember(text, items, 2) ? repeated : messages
}

/** @param chars how long it was written */
function checkMessage(value: unknown, chars: number): Read {
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
  if (message.method === 'initialize' && chars > MAX_OPENING_CHARS)
    return refuse(known, -32600, `Invalid request: initialize exceeds ${MAX_OPENING_CHARS} characters`)
  const params = message.params
  if (params !== undefined && (typeof params !== 'object' || params === null || Array.isArray(params)))
    return refuse(known, -32600, 'Invalid request: params must be an object')
  // Whoever reads the rest of it would drop it without a word.
  const meta = isRecord(params) ? params['_meta'] : undefined
  if (meta !== undefined && !isRecord(meta)) return refuse(known, -32602, 'Invalid params: _meta must be an object')
  return { ok: true, message: message as unknown as Message }
}

const refuse = (id: string | number | null, code: number, message: string): Read & { readonly ok: false } => ({
  ok: false,
  id,
  code,
  message,
})
// Even its id may be one to us and another to whoever looked at it before.
const repeated = refuse(null, -32600, 'Invalid request: a member comes twice')

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a

/**
 * Whether a message, or what is right in it (`params`, `result`, `error`), has a member twice: others than us may have read the
 * first. The text has more colons at those depths then than what was parsed has members. It is known to be JSON.
 */
function repeatsMember(text: string, messages: readonly unknown[], depth: number): boolean {
  let left = 0
  for (const message of messages) {
    if (!isRecord(message)) continue
    for (const name in message) {
      const value = message[name]
      left += isRecord(value) ? 1 + Object.keys(value).length : 1
    }
  }
  let deep = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === 0x7b || code === 0x5b) deep++
    else if (code === 0x7d || code === 0x5d) deep--
    else if (code === COLON && (deep === depth || deep === depth + 1)) left--
  }
  return left < 0
}

/** @param from its first quote */
function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); ; at = text.indexOf('"', at + 1)) {
    let before = at - 1
    while (text.charCodeAt(before) === BACKSLASH) before--
    if ((at - before) % 2 === 1) return at
  }
}
