/** What a server offers: a limit in a schema must stay a number. */
const LIST =
  /"result"\s*:\s*\{(?:\s*"\w+"\s*:\s*(?:"[^"]*"|\d+|\{[^{}]*\})\s*,)*\s*"(?:tools|resources|resourceTemplates|prompts)"\s*:\s*\[/
const MAX_HEAD = 256
/** Sixteen digits may be an integer that parsing would round. */
export const LONG_NUMBER = /\d{16}/

// More than anybody is handed on by default.
const MAX_EXACT = 2 * 1024 * 1024
const STRING_OR_INTEGER = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g

/** Whether a message has a list of what its server offers, by its beginning. */
export const isList = (head: string): boolean => LIST.test(head.slice(0, MAX_HEAD))

/** The same message with integers as texts that parsing would round: a digit less is another id. Lists and what is too large stay. */
export const withExactIntegers = (text: string): string =>
  text.length > MAX_EXACT || !text.startsWith('{') || !LONG_NUMBER.test(text) || isList(text)
    ? text
    : text.replaceAll(STRING_OR_INTEGER, (found) =>
        found.startsWith('"') || Number.isSafeInteger(Number(found)) ? found : `"${found}"`,
      )

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
function exactBytes(bytes: Buffer, exact: (text: string) => string): Buffer {
  const text = bytes.toString('latin1')
  return LONG_NUMBER.test(text) ? Buffer.from(exact(text), 'latin1') : bytes
}

const inData = (lines: string): string =>
  lines.replaceAll(/^(data: ?)(\{.*\})$/gm, (_line, name: string, json: string) => name + withExactIntegers(json))

/** Passes whole lines on: nobody reads less of an event stream. */
function exactEvents(): TransformStream<Uint8Array, Uint8Array> {
  let begun: Buffer[] = []
  return new TransformStream({
    transform(chunk, controller) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      const end = Math.max(bytes.lastIndexOf('\n'), bytes.lastIndexOf('\r')) + 1
      if (end > 0) {
        controller.enqueue(exactBytes(Buffer.concat([...begun, bytes.subarray(0, end)]), inData))
        begun = []
      }
      if (end < bytes.length) begun.push(bytes.subarray(end))
    },
    flush: (controller) => controller.enqueue(Buffer.concat(begun)),
  })
}
