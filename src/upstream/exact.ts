import { MAY_CHANGE, withExactNumbers } from '../core/exact-numbers.ts'
import { isRecord } from '../core/record.ts'

/** What a server offers: a limit in a schema must stay a number. */
const LIST =
  /"result"\s*:\s*\{(?:\s*"\w+"\s*:\s*(?:"[^"]*"|\d+|\{[^{}]*\})\s*,)*\s*"(?:tools|resources|resourceTemplates|prompts)"\s*:\s*\[/
const MAX_HEAD = 256

// More than anybody is handed on by default.
const MAX_EXACT = 2 * 1024 * 1024

/** Whether a message has a list of what its server offers, by its beginning. */
export const isList = (head: string): boolean => LIST.test(head.slice(0, MAX_HEAD))

/** The same message with numbers as texts that parsing would change. Lists and what is too large stay. */
export const withExactIntegers = (text: string): string =>
  text.length > MAX_EXACT || !text.startsWith('{') || isList(text) ? text : withExactNumbers(text)

/** The same for an answer over HTTP, and for those messages of an event stream that are a line each. */
export async function withExactBody(answer: Response): Promise<Response> {
  const { body, status, headers } = answer
  const type = headers.get('content-type') ?? ''
  if (!answer.ok || body === null) return answer
  if (type.startsWith('text/event-stream')) return new Response(body.pipeThrough(exactEvents()), { status, headers })
  if (!type.startsWith('application/json')) return answer
  return new Response(exactBytes(Buffer.from(await answer.arrayBuffer()), withExactIntegers), { status, headers })
}

// Every byte is a letter: those of JSON's own are none of another letter's in UTF-8.
function exactBytes(bytes: Buffer, exact: (text: string) => string, others = MAY_CHANGE): Buffer {
  const text = bytes.toString('latin1')
  return MAY_CHANGE.test(text) || others.test(text) ? Buffer.from(exact(text), 'latin1') : bytes
}

const inData = (lines: string): string =>
  lines
    .replaceAll(/^(data: ?)(\{.*\})$/gm, (_line, name: string, json: string) => name + withExactIntegers(json))
    .replaceAll(/^data: ?(\[.*\]) *$/gm, (line, json: string) => eventsOf(json) ?? line)

const BATCH = /^data: ?\[/m
// Of valid JSON, where every text ends.
const STRING_OR_MARK = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},]/g
/** What nobody sends at once, and nobody reads at once. */
const MAX_BATCH = 1_000

/**
 * The messages of a batch as an event each: servers of 2025-03-26 may send them as one, which the SDK does not read. What
 * stands before it in its event belongs to the first, what stands behind it to the last.
 */
function eventsOf(json: string): string | undefined {
  if (!isBatch(json)) return undefined
  const messages: string[] = []
  let depth = 0
  let begin = 1
  for (const { 0: mark, index } of json.matchAll(STRING_OR_MARK)) {
    if (mark === '{' || mark === '[') depth++
    else if (mark === '}' || mark === ']') depth--
    // Between two messages, or behind the last.
    if (depth > 0 && (depth > 1 || mark !== ',')) continue
    messages.push(withExactIntegers(json.slice(begin, index).trim()))
    begin = index + 1
  }
  return messages.map((message) => `data: ${message}`).join('\n\n')
}

function isBatch(json: string): boolean {
  try {
    const value: unknown = JSON.parse(json)
    return Array.isArray(value) && value.length > 0 && value.length <= MAX_BATCH && value.every(isRecord)
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}

/** Passes whole lines on: nobody reads less of an event stream. */
function exactEvents(): TransformStream<Uint8Array, Uint8Array> {
  let begun: Buffer[] = []
  return new TransformStream({
    transform(chunk, controller) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      const end = Math.max(bytes.lastIndexOf('\n'), bytes.lastIndexOf('\r')) + 1
      if (end > 0) {
        controller.enqueue(exactBytes(Buffer.concat([...begun, bytes.subarray(0, end)]), inData, BATCH))
        begun = []
      }
      if (end < bytes.length) begun.push(bytes.subarray(end))
    },
    flush: (controller) => controller.enqueue(Buffer.concat(begun)),
  })
}
