import { bytesOf, parseJsonText, partEnd, textOf } from '../_text.ts'
import { visibleHeaders } from './headers.ts'

export interface ShownResponse {
  readonly status: number
  readonly ok: boolean
  readonly url: string
  readonly content_type: string
  readonly headers: Record<string, string>
  /** The body as text, unless it is JSON or binary. */
  readonly body?: string
  readonly json?: unknown
  readonly binary?: true
  readonly bytes: number
  readonly truncated: boolean
  readonly elapsed_ms: number
}

const isJson = (type: string): boolean => /^(?:application|text)\/(?:[\w.-]+\+)?json\b/i.test(type)

/** The response as shown to a model, whatever its status. */
export async function showResponse(response: Response, startedAt: number, maxText: number): Promise<ShownResponse> {
  const type = response.headers.get('content-type') ?? ''
  const bytes = await bytesOf(response)
  const text = textOf(bytes, type)
  const json = text !== undefined && text.length <= maxText && isJson(type) ? parseJsonText(text) : undefined
  return {
    status: response.status,
    ok: response.ok,
    url: response.url,
    content_type: type,
    headers: visibleHeaders(response.headers),
    ...(text === undefined
      ? { binary: true }
      : json
        ? { json: json.value }
        : { body: text.slice(0, partEnd(text, 0, maxText)) }),
    bytes: bytes.length,
    truncated: text === undefined ? bytes.length > 0 : text.length > maxText,
    elapsed_ms: Math.round(performance.now() - startedAt),
  }
}
