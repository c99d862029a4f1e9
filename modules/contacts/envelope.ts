import { randomBytes, randomUUID } from 'node:crypto'
import { invalid, tooLarge } from '../_errors.ts'
import { isRecord, type Json } from '../_is-record.ts'

/** The message format for agents; people get its text only. */
export interface Envelope {
  readonly message_id: string
  readonly text: string
  /** RFC 3339 */
  readonly sent_at: string
  readonly session_id: string
  readonly reply_to?: string
}

export interface MessageInput {
  readonly content_type: string
  readonly message_text?: string | undefined
  readonly message_base64?: string | undefined
  readonly session_id?: string | undefined
  readonly reply_to?: string | undefined
}

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i
const RFC3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/
const BASE64URL = /^[A-Za-z0-9_-]*={0,2}$/
const MAX_TEXT = 32_000

/**
 * Creates an envelope for a text, or validates a complete one. The wording of the errors is fixed by the requirements.
 * @throws ToolError
 */
export function envelopeOf(input: MessageInput, now: Date): Envelope {
  const [type = ''] = input.content_type.split(';')
  if (type.trim().toLowerCase() !== 'application/json')
    throw invalid('content_type must be application/json envelope', 'Leave content_type out.')
  const session = trimmed(input.session_id)
  if (session !== undefined && !UUID_V7.test(session))
    throw invalid('session_id must be uuid_v7', 'Leave it out, or use the session_id of the conversation.')
  const text = input.message_text ?? ''
  if (text.trim() !== '') {
    checkLength(text)
    const reply_to = trimmed(input.reply_to)
    return {
      message_id: `msg_${randomUUID()}`,
      text,
      sent_at: now.toISOString(),
      session_id: session ?? uuidV7(now),
      ...(reply_to === undefined ? {} : { reply_to }),
    }
  }
  const base64 = trimmed(input.message_base64)
  if (base64 === undefined)
    throw invalid('message_text or message_base64 is required', 'Put the message into message_text.')
  return parseEnvelope(base64, session, trimmed(input.reply_to))
}

/** Undefined if nothing is left. */
const trimmed = (value: unknown): string | undefined =>
  typeof value === 'string' ? value.trim() || undefined : undefined

function parseEnvelope(base64: string, session: string | undefined, reply: string | undefined): Envelope {
  const hint = 'Put the message into message_text as plain text.'
  const fields = parseObject(decodeBase64(base64, hint), hint)
  const requireText = (name: string): string => {
    const value = fields[name]
    if (typeof value === 'string' && value.trim() !== '') return value
    throw invalid(`message envelope missing ${name}`, hint)
  }
  const message_id = requireText('message_id')
  const text = requireText('text')
  checkLength(text)
  const sent_at = requireText('sent_at')
  if (!RFC3339.test(sent_at) || Number.isNaN(Date.parse(sent_at)))
    throw invalid('message envelope sent_at must be RFC3339', hint)
  const session_id = trimmed(fields['session_id']) ?? session
  if (session_id === undefined) throw invalid('message envelope missing session_id', hint)
  if (!UUID_V7.test(session_id)) throw invalid('message envelope session_id must be uuid_v7', hint)
  const reply_to = typeof fields['reply_to'] === 'string' ? trimmed(fields['reply_to']) : reply
  return {
    message_id,
    text,
    sent_at,
    session_id,
    ...(reply_to === undefined ? {} : { reply_to }),
  }
}

function decodeBase64(base64: string, hint: string): string {
  // Accepts both base64 alphabets; Node itself ignores invalid characters.
  const url = base64.replaceAll('+', '-').replaceAll('/', '_')
  if (!BASE64URL.test(url)) throw invalid('message_base64 decode failed: invalid characters', hint)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(url, 'base64url'))
  } catch {
    throw invalid('message_base64 decode failed: not UTF-8 text', hint)
  }
}

function parseObject(text: string, hint: string): Json {
  try {
    const value: unknown = JSON.parse(text)
    if (isRecord(value)) return value
  } catch {}
  throw invalid('message_base64 must be envelope json', hint)
}

function checkLength(text: string): void {
  if (text.length <= MAX_TEXT) return
  throw tooLarge(
    `The message has ${text.length} characters; the limit is ${MAX_TEXT}.`,
    'Split it into several messages.',
  )
}

/** UUID version 7: milliseconds followed by random bits (RFC 9562). */
export function uuidV7(now: Date): string {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(now.getTime(), 0, 6)
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x70
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
