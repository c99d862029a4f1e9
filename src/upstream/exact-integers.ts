import { PegboardError } from '../core/errors.ts'
import { MAY_CHANGE, withExactNumbers } from '../core/exact-numbers.ts'
import { isRecord } from '../core/is-record.ts'
import { jsonLimitExceeded } from '../core/json-limits.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { mediaTypeOf } from './media-type.ts'
import { type LongEvents, rewriteEvents } from './rewrite-events.ts'

/** Lists of definitions: limits in their schemas must stay numbers. */
const LIST =
  /"result"\s*:\s*\{(?:\s*"\w+"\s*:\s*(?:"[^"]*"|\d+|\{[^{}]*\})\s*,)*\s*"(?:tools|resources|resourceTemplates|prompts)"\s*:\s*\[/
const MAX_HEAD = 256

// More than results may contain by default.
const MAX_EXACT = 2 * 1024 * 1024

/** True if a message, by its beginning, contains a list of definitions. */
export const isList = (head: string): boolean => LIST.test(head.slice(0, MAX_HEAD))

/** The message with numbers that parsing would change written as strings. Lists and large messages stay unchanged. */
export const withExactIntegers = (text: string): string =>
  text.length > MAX_EXACT || !MAY_CHANGE.test(text) || !text.startsWith('{') || isList(text)
    ? text
    : withExactNumbers(text)

/**
 * The same for an HTTP response: for its body, or for each event of an event stream. The body of a failed response is
 * dropped if it cannot be read.
 * @param long how to handle events that are too long
 * @throws PegboardError E_TOO_LARGE
 */
export async function withExactBody(answer: Response, long?: LongEvents): Promise<Response> {
  const { body, status, headers, ok } = answer
  if (body === null) return answer
  const type = mediaTypeOf(headers.get('content-type'))
  if (ok && type === 'text/event-stream')
    return new Response(body.pipeThrough(rewriteEvents(messagesIn, long)), { status, headers })
  if (ok && type !== 'application/json') return answer
  const bytes = Buffer.from(await answer.arrayBuffer())
  // Latin-1 keeps every byte; JSON's own characters never occur within other UTF-8 characters.
  const text = bytes.toString('latin1')
  const fault = jsonLimitExceeded(text) ?? batchFault(text)
  if (fault !== undefined && ok) throw new PegboardError('E_TOO_LARGE', `its answer ${fault}`)
  const exact = ok && MAY_CHANGE.test(text) ? Buffer.from(withExactIntegers(text), 'latin1') : bytes
  return new Response(fault === undefined ? exact : '', { status, headers })
}

// Finds the ends of strings in valid JSON.
const STRING_OR_MARK = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},]/g
/** More than any real batch. */
const MAX_BATCH = 1_000

function batchFault(text: string): string | undefined {
  if (!text.startsWith('[')) return undefined
  const value = tryParseJson(text)
  return Array.isArray(value) && value.length > MAX_BATCH ? `has more than ${MAX_BATCH} messages` : undefined
}

/**
 * The messages of an event. Servers of 2025-03-26 may send several as one batch, which the SDK does not read.
 * @throws PegboardError E_TOO_LARGE for messages beyond the limits
 */
function messagesIn(data: string): readonly string[] {
  const fault = jsonLimitExceeded(data)
  if (fault !== undefined) throw new PegboardError('E_TOO_LARGE', `an event of it ${fault}`)
  if (data.startsWith('{')) return [withExactIntegers(data)]
  return (data.startsWith('[') && messagesOf(data)) || [data]
}

function messagesOf(data: string): readonly string[] | undefined {
  const json = data.trimEnd()
  if (!isBatch(tryParseJson(json))) return undefined
  const messages: string[] = []
  let depth = 0
  let begin = 1
  for (const { 0: mark, index } of json.matchAll(STRING_OR_MARK)) {
    if (mark === '{' || mark === '[') depth++
    else if (mark === '}' || mark === ']') depth--
    // Between two messages, or after the last one.
    if (depth > 0 && (depth > 1 || mark !== ',')) continue
    messages.push(withExactIntegers(json.slice(begin, index).trim()))
    begin = index + 1
  }
  return messages
}

const isBatch = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.length <= MAX_BATCH && value.every(isRecord)
