import { PegboardError, ToolError } from '../core/errors.ts'
import { classifyFailure } from '../core/failure-class.ts'
import { isRecord } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { parseJson } from '../core/parse-json-text.ts'
import { parseRetryAfter } from '../core/retry-after.ts'
import { sanitize, sanitizeText } from '../core/sanitize.ts'
import type { ContentBlock, McpResult } from '../core/tool-result.ts'
import { truncate } from '../core/truncate.ts'
import { decodeText, isJson, isText } from './media-types.ts'
import type { ApiResponse } from './send-request.ts'
import { LONE_SURROGATE } from './serialize-parameters.ts'

const MAX_ERROR = 2_000
const DAY_MS = 86_400_000

/**
 * An API's response as an MCP result. JSON becomes structured content and text; a list is placed under `items`.
 * @param hasOutputSchema true if the tool lists an output schema, so that structured content is required
 * @throws ToolError with status, body and class unless the status is 2xx; E_REDIRECT_BLOCKED for a redirect
 */
export function resultOf(
  name: string,
  response: ApiResponse,
  redact: (text: string) => string,
  hasOutputSchema: boolean,
  now: number,
): McpResult {
  const type = String(response.headers['content-type'] ?? '').toLowerCase()
  if (response.status < 200 || response.status > 299) throw failureOf(name, response, type, redact, now)
  if (response.body.length === 0) {
    const text = `Done: ${response.status} ${response.reason}.`
    return withStructure([{ type: 'text', text }], hasOutputSchema ? {} : undefined)
  }
  if (type === '' || isText(type)) {
    const text = sanitizeText(redact(decodeText(response.body, type)))
    const value = isJson(type) ? parseBody(text) : undefined
    if (typeof value === 'object' && value !== null) sanitize(value)
    if (value === undefined)
      return withStructure([{ type: 'text', text }], hasOutputSchema ? { items: text } : undefined)
    return withStructure([{ type: 'text', text }], isRecord(value) ? value : { items: value })
  }
  const mimeType = type.split(';')[0]?.trim() || 'application/octet-stream'
  const data = response.body.toString('base64')
  const kind = mimeType.split('/')[0]
  const block: ContentBlock =
    kind === 'image' || kind === 'audio'
      ? { type: kind, data, mimeType }
      : {
          type: 'resource',
          resource: { uri: `api://${encodeURI(name.replaceAll(LONE_SURROGATE, '\ufffd'))}`, mimeType, blob: data },
        }
  return withStructure([block], hasOutputSchema ? { items: { mimeType, bytes: response.body.length } } : undefined)
}

const withStructure = (content: readonly ContentBlock[], structuredContent: unknown): McpResult => ({
  content,
  ...(structuredContent === undefined ? {} : { structuredContent }),
})

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
  response: ApiResponse,
  type: string,
  redact: (text: string) => string,
  now: number,
): PegboardError {
  const { status, reason, headers, body } = response
  const answered = `${name} was answered ${status}${reason ? ` ${reason}` : ''}`
  if (status < 400 && status !== 304) return createRedirectError(answered, response, redact)
  const fullText = type === '' || isText(type) ? sanitizeText(redact(decodeText(body, type))).trim() : ''
  const text = fullText.length > MAX_ERROR ? `${fullText.slice(0, MAX_ERROR)}…` : fullText
  const retryAfterMs =
    status === 429 || status === 503 ? parseRetryAfter([headers['retry-after']].flat()[0], now) : undefined
  const waitMs = retryAfterMs && Math.min(retryAfterMs, DAY_MS)
  return new ToolError(`${answered}: ${status === 304 ? 'nothing has changed' : text || 'no more'}`, {
    class: classifyFailure(text, { status }),
    ...(status === 304 ? { hint: '' } : {}),
    ...(waitMs === undefined ? {} : { hint: `Try again in ${Math.ceil(waitMs / 1_000)} s.`, retryAfterMs: waitMs }),
    data: { status, ...(text === '' ? {} : { body: isJson(type) ? (parseBody(text) ?? text) : text }) },
  })
}

/** Redirects may lead anywhere, and the request has credentials. */
function createRedirectError(
  answered: string,
  { status, headers, url }: ApiResponse,
  redact: (text: string) => string,
): PegboardError {
  const header = [headers['location']].flat()[0]
  const isAddress = header !== undefined && URL.canParse(header, url.href)
  const location = isAddress ? truncate(sanitizeText(redact(new URL(header, url).href)), MAX_ERROR) : undefined
  const target = location ?? 'an address that it does not name'
  return new PegboardError(
    'E_REDIRECT_BLOCKED',
    `${answered}: it redirects to ${target}. Pegboard does not follow redirects of APIs.`,
    {
      class: 'server_setup',
      hint: 'Use another tool for this address. If the whole API has moved, the operator can change its baseUrl.',
      data: { status, ...omitUndefined({ location }) },
    },
  )
}
