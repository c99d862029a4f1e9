import { ToolError } from '../core/errors.ts'
import { classifyFailure } from '../core/failure-class.ts'
import { isRecord } from '../core/is-record.ts'
import { parseJson } from '../core/parse-json-text.ts'
import { parseRetryAfter } from '../core/retry-after.ts'
import { sanitize, sanitizeText } from '../core/sanitize.ts'
import type { ContentBlock, McpResult } from '../core/tool-result.ts'
import { isJson } from './plan-operation.ts'
import type { ApiResponse } from './send-request.ts'
import { HALF } from './serialize-parameters.ts'

const MAX_ERROR = 2_000
const DAY_MS = 86_400_000

/**
 * An API's response as an MCP result. JSON becomes structured content and text; a list is placed under `items`.
 * @param promised true if the tool lists an output schema, so that structured content is required
 * @throws ToolError for every status except 2xx, with status, body and class
 */
export function resultOf(
  name: string,
  answer: ApiResponse,
  redact: (text: string) => string,
  promised: boolean,
  now: number,
): McpResult {
  const type = String(answer.headers['content-type'] ?? '').toLowerCase()
  if (answer.status < 200 || answer.status > 299) throw failureOf(name, answer, type, redact, now)
  if (answer.body.length === 0) {
    const text = `Done: ${answer.status} ${answer.reason}.`
    return withStructure([{ type: 'text', text }], promised ? {} : undefined)
  }
  if (isText(type)) {
    const text = sanitizeText(redact(answer.body.toString('utf8')))
    const value = isJson(type) ? parseBody(text) : undefined
    if (typeof value === 'object' && value !== null) sanitize(value)
    if (value === undefined) return withStructure([{ type: 'text', text }], promised ? { items: text } : undefined)
    return withStructure([{ type: 'text', text }], isRecord(value) ? value : { items: value })
  }
  const mimeType = type.split(';')[0]?.trim() || 'application/octet-stream'
  const data = answer.body.toString('base64')
  const kind = mimeType.split('/')[0]
  const block: ContentBlock =
    kind === 'image' || kind === 'audio'
      ? { type: kind, data, mimeType }
      : {
          type: 'resource',
          resource: { uri: `api://${encodeURI(name.replaceAll(HALF, '\ufffd'))}`, mimeType, blob: data },
        }
  return withStructure([block], promised ? { items: { mimeType, bytes: answer.body.length } } : undefined)
}

const withStructure = (content: readonly ContentBlock[], structuredContent: unknown): McpResult => ({
  content,
  ...(structuredContent === undefined ? {} : { structuredContent }),
})

const isText = (type: string): boolean =>
  type === '' ||
  isJson(type) ||
  /^(?:text\/|application\/(?:xml|yaml|x-yaml|javascript|graphql|x-ndjson|[^;]*\+(?:xml|yaml)))/.test(type)

function parseBody(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    // Invalid JSON is treated as text.
    return undefined
  }
}

function failureOf(
  name: string,
  answer: ApiResponse,
  type: string,
  redact: (text: string) => string,
  now: number,
): ToolError {
  const { status, reason, headers, body } = answer
  const whole = isText(type) ? sanitizeText(redact(body.toString('utf8'))).trim() : ''
  const text = whole.length > MAX_ERROR ? `${whole.slice(0, MAX_ERROR)}…` : whole
  const retryAfterMs =
    status === 429 || status === 503 ? parseRetryAfter([headers['retry-after']].flat()[0], now) : undefined
  const wait = retryAfterMs && Math.min(retryAfterMs, DAY_MS)
  const redirect = status >= 300 && status < 400 && status !== 304
  const what = redirect
    ? 'a redirect, which is not followed'
    : status === 304
      ? 'nothing has changed'
      : text || 'no more'
  return new ToolError(`${name} was answered ${status}${reason ? ` ${reason}` : ''}: ${what}`, {
    class: classifyFailure(text, { status }),
    ...(redirect || status === 304 ? { hint: '' } : {}),
    ...(wait === undefined ? {} : { hint: `Try again in ${Math.ceil(wait / 1_000)} s.`, retryAfterMs: wait }),
    data: { status, ...(text === '' ? {} : { body: isJson(type) ? (parseBody(text) ?? text) : text }) },
  })
}
