import { MAX_KEYS, MAX_NESTING } from '../core/argument-limits.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { endOfString, exceedsJsonItems, withoutLargeMembers } from '../core/json-item-count.ts'
import type { Message } from '../core/jsonrpc.ts'
import { VERSION } from '../core/protocol-meta.ts'

export type ParsedMessage =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly id: string | number | null; readonly code: number; readonly message: string }

const MAX_BATCH = 100
const MAX_ID_CHARS = 1_024

/** Whether a request names its protocol revision, as all requests of 2026 do. */
export const claimsRevision = (params: unknown): boolean =>
  isRecord(params) && isRecord(params['_meta']) && VERSION in params['_meta']

const MEMBERS = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error'])
/** Limit for `initialize`, which is kept for the session. */
const MAX_INITIALIZE_CHARS = 64 * 1024
/** Limit for a message: arguments, and as much around them. */
const MAX_MESSAGE_KEYS = 2 * MAX_KEYS
/** Levels above the arguments: the message and its params. */
const LEVELS_ABOVE_ARGUMENTS = 2
const TOO_MANY = { too_many: new Array(MAX_KEYS + 1).fill(0) }
const TOO_DEEP = { too_deep: JSON.parse('['.repeat(MAX_NESTING) + ']'.repeat(MAX_NESTING)) as unknown }

/** Parses a line and checks its envelope: one message, `jsonrpc: "2.0"`, an id that is a string or an integer. */
export function parseMessage(line: string): ParsedMessage {
  if (!exceedsJsonItems(line, MAX_MESSAGE_KEYS)) return parseWhole(line)
  const shortened = withoutLargeMembers(line)
  if (shortened === undefined) return notJson
  if (exceedsJsonItems(shortened.text, MAX_MESSAGE_KEYS)) return tooMany(null)
  const read = parseWhole(shortened.text)
  if (!read.ok) return read
  const { message } = read
  if (message.method !== 'tools/call') return tooMany(message.id ?? null)
  // These arguments are refused later, with a result that the model can read.
  const args = shortened.depth - LEVELS_ABOVE_ARGUMENTS > MAX_NESTING ? TOO_DEEP : TOO_MANY
  return { ok: true, message: { ...message, params: { ...message.params, arguments: args } } }
}

function parseWhole(line: string): ParsedMessage {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return notJson
  }
  return isRecord(value) && repeatsMember(line, [value], 1) ? duplicateMember : checkMessage(value, line.length)
}

/** Whether this is a JSON-RPC batch: several messages as a list. */
export const isBatch = (text: string): boolean => /^\s*\[/.test(text)

/** The same for a batch of 1 to 100 messages. Returns the first error. */
export function parseBatch(text: string): readonly Message[] | (ParsedMessage & { readonly ok: false }) {
  if (exceedsJsonItems(text, MAX_MESSAGE_KEYS)) return tooMany(null)
  let items: unknown[]
  try {
    items = JSON.parse(text) as unknown[]
  } catch {
    return refuse(null, -32700, 'Parse error: the batch is not JSON')
  }
  if (items.length === 0 || items.length > MAX_BATCH)
    return refuse(null, -32600, `Invalid request: a batch holds 1 to ${MAX_BATCH} messages`)
  const messages: Message[] = []
  for (const item of items) {
    const read = checkMessage(item, text.length)
    if (!read.ok) return read
    // Required by 2025-03-26, the only revision with batches.
    if (read.message.method === 'initialize')
      return refuse(null, -32600, 'Invalid request: initialize must be sent alone')
    messages.push(read.message)
  }
  return repeatsMember(text, items, 2) ? duplicateMember : messages
}

/** @param chars length of the text */
function checkMessage(value: unknown, chars: number): ParsedMessage {
  if (Array.isArray(value)) return refuse(null, -32600, 'Invalid request: batch not supported, send one message a line')
  if (!isRecord(value)) return refuse(null, -32600, 'Invalid request: an object is required')
  const id = isLegalId(value['id']) ? value['id'] : null
  const envelopeFault = findEnvelopeFault(value, chars)
  if (envelopeFault !== undefined) return refuse(id, -32600, `Invalid request: ${envelopeFault}`)
  const { params } = value
  const fault = value['method'] === 'initialize' && id !== null ? findInitializeFault(params) : undefined
  if (fault !== undefined) return refuse(id, -32602, `Invalid params: ${fault}`)
  // The SDK would drop such a message without an answer.
  const meta = asRecord(params)['_meta']
  if (meta !== undefined && !isRecord(meta)) return refuse(id, -32602, 'Invalid params: _meta must be an object')
  return { ok: true, message: value as unknown as Message }
}

const isLegalId = (id: unknown): id is string | number =>
  (typeof id === 'string' && id.length <= MAX_ID_CHARS) || (typeof id === 'number' && Number.isSafeInteger(id))

/** What is wrong with the members of a message; undefined if nothing is. @param chars length of the text */
function findEnvelopeFault(message: Json, chars: number): string | undefined {
  const { method, params } = message
  const isCall = typeof method === 'string'
  const isResponse = 'result' in message || 'error' in message
  if (isCall && 'id' in message && !isLegalId(message['id'])) return 'id must be a string or an integer'
  if (message['jsonrpc'] !== '2.0') return 'jsonrpc must be "2.0"'
  if (!isCall && !isResponse) return 'method is required'
  const unknownMember = Object.keys(message).find((key) => !MEMBERS.has(key))
  if (unknownMember !== undefined) return `unknown member ${JSON.stringify(unknownMember.slice(0, 40))}`
  if (isCall && isResponse) return 'both a request and a response'
  if (method === 'initialize' && chars > MAX_INITIALIZE_CHARS)
    return `initialize exceeds ${MAX_INITIALIZE_CHARS} characters`
  return params === undefined || isRecord(params) ? undefined : 'params must be an object'
}

/** What `initialize` lacks; undefined if complete. A 2026 request is refused later, as an unknown method. */
function findInitializeFault(params: unknown): string | undefined {
  if (!isRecord(params)) return 'initialize needs params'
  if (claimsRevision(params)) return undefined
  const { protocolVersion, capabilities, clientInfo } = params
  if (typeof protocolVersion !== 'string') return 'protocolVersion must be a string'
  if (!isRecord(capabilities)) return 'capabilities must be an object'
  if (!isRecord(clientInfo)) return 'clientInfo must be an object'
  return typeof clientInfo['name'] === 'string' && typeof clientInfo['version'] === 'string'
    ? undefined
    : 'clientInfo needs a name and a version'
}

const refuse = (id: string | number | null, code: number, message: string): ParsedMessage & { readonly ok: false } => ({
  ok: false,
  id,
  code,
  message,
})
const notJson = refuse(null, -32700, 'Parse error: the message is not JSON')
const tooMany = (id: string | number | null) =>
  refuse(id, -32600, `Invalid request: the message has more than ${MAX_MESSAGE_KEYS} keys and items`)
// Its id is null, because a proxy may have read another one.
const duplicateMember = refuse(null, -32600, 'Invalid request: duplicate member')

const QUOTE = 0x22
const COLON = 0x3a

/**
 * Whether a message, or its `params`, `result` or `error`, has a member twice: a proxy may have read the first one. In that
 * case the text has more colons at these depths than the parsed value has members. The text must be valid JSON.
 */
function repeatsMember(text: string, messages: readonly unknown[], depth: number): boolean {
  let missing = 0
  for (const message of messages) {
    if (!isRecord(message)) continue
    for (const name in message) {
      const value = message[name]
      missing += isRecord(value) ? 1 + Object.keys(value).length : 1
    }
  }
  let level = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === 0x7b || code === 0x5b) level++
    else if (code === 0x7d || code === 0x5d) level--
    else if (code === COLON && (level === depth || level === depth + 1)) missing--
  }
  return missing < 0
}
