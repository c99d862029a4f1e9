import { formatNumber } from '../core/format-count.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import { RELATED } from '../core/task-protocol.ts'

/** `_meta` key with the name of the asking server, for sampling and roots, which have no text for a person. */
const SERVER = 'pegboard/server'

/**
 * The parameters of a server's question for a client: with the server's name, and without data of Pegboard's own
 * connection.
 * @throws ProtocolFailure -32602 for a question that no client should show
 */
export function relayedAsk(method: string, params: Json, serverId: string): Json {
  const { _meta, ...rest } = params
  const { progressToken: _theirs, [RELATED]: _task, ...meta } = (_meta ?? {}) as Record<string, unknown>
  if (method !== 'elicitation/create') {
    const withServer = { ...rest, _meta: { ...meta, [SERVER]: serverId } }
    if (method !== 'sampling/createMessage') return withServer
    const { systemPrompt } = rest as { systemPrompt?: unknown }
    const notice = `The MCP server ${serverId} asks for this completion.`
    return { ...withServer, systemPrompt: typeof systemPrompt === 'string' ? `${notice}\n\n${systemPrompt}` : notice }
  }
  const { message, mode, url } = rest as { message?: unknown; mode?: unknown; url?: unknown }
  const baseParams = Object.keys(meta).length > 0 ? { ...rest, _meta: meta } : rest
  if (typeof message !== 'string') throw new ProtocolFailure(-32602, 'The question has no message')
  const attributedMessage = attributeLines(message, serverId)
  if (mode === 'url') {
    const page = pageOf(url)
    // The host in ASCII (`xn--…`), which reveals look-alike letters.
    return { ...baseParams, message: `${attributedMessage} (opens a page at ${page.host})`, url: page.href }
  }
  if (mode !== undefined && mode !== 'form')
    throw new ProtocolFailure(-32602, 'The question is neither a form nor a url')
  if (url !== undefined) throw new ProtocolFailure(-32602, 'A form has no url')
  const { requestedSchema } = rest as { requestedSchema?: unknown }
  return {
    ...baseParams,
    message: attributedMessage,
    ...(requestedSchema === undefined ? {} : { requestedSchema: formOf(requestedSchema) }),
  }
}

/** Maximum length of a question's message, and of the text of one field. */
const MAX_MESSAGE = 4_000
const MAX_FIELD_TEXT = 1_000
const MAX_NAME = 256
/** Maximum number of fields in a form, and of options in total. */
const MAX_FIELDS = 100
const MAX_OPTIONS = 1_000
const MAX_URL = 8_192

const LINE_END = /[\n\v\f\r\u0085\u2028\u2029]/
const LINE_ENDS = /\s*[\n\v\f\r\u0085\u2028\u2029]\s*/g
const LONG_BLANKS = /\s{17,}/g

/** Puts the server's name before each line, so that no line looks like a question of Pegboard. Removes blank lines. */
const attributeLines = (message: string, serverId: string): string =>
  limitLength(message, MAX_MESSAGE)
    .split(LINE_END)
    .filter((line, at) => at === 0 || line.trim() !== '')
    .map((line) => `${serverId}: ${line.replaceAll(LONG_BLANKS, ' ')}`)
    .join('\n')

function limitLength(text: string, max: number): string {
  if (text.length <= max) return text
  return `${text.slice(0, max)} … (${formatNumber(text.length - max)} more characters were left out)`
}

/** Reduces a form's texts to one line each. @throws ProtocolFailure -32602 if the form is too large to read */
function formOf(schema: unknown): unknown {
  const fields = isRecord(schema) && isRecord(schema['properties']) ? Object.keys(schema['properties']) : []
  if (fields.length > MAX_FIELDS) throw new ProtocolFailure(-32602, `The form has more than ${MAX_FIELDS} fields`)
  if (fields.some((name) => name.length > MAX_NAME || LINE_END.test(name)))
    throw new ProtocolFailure(-32602, 'A field of the form has a name that nobody can read')
  let options = 0
  const cleanTexts = (value: unknown, key: string): unknown => {
    if (typeof value === 'string')
      return SHOWN_MEMBERS.has(key)
        ? limitLength(value, MAX_FIELD_TEXT).replaceAll(LINE_ENDS, ' ').replaceAll(LONG_BLANKS, ' ')
        : value
    if (Array.isArray(value)) {
      options += value.length
      if (options > MAX_OPTIONS) throw new ProtocolFailure(-32602, `The form has more than ${MAX_OPTIONS} options`)
      return value.map((one) => cleanTexts(one, key))
    }
    if (!isRecord(value)) return value
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cleanTexts(one, name)]))
  }
  return cleanTexts(schema, '')
}

/** Members that clients show to a person. */
const SHOWN_MEMBERS: ReadonlySet<string> = new Set(['title', 'description', 'enumNames'])

/** @throws ProtocolFailure -32602 */
function pageOf(url: unknown): URL {
  if (String(url).length > MAX_URL) throw new ProtocolFailure(-32602, 'The url is too long')
  const page = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  if (page?.protocol !== 'https:') throw new ProtocolFailure(-32602, 'Only https pages are opened')
  // `https://bank.example@other.example` looks like another site.
  if (page.username !== '' || page.password !== '')
    throw new ProtocolFailure(-32602, 'The url has a user name or a password')
  return page
}
