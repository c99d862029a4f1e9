import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { limited } from '../core/limit.ts'
import { isRecord } from '../core/record.ts'
import { scrub } from '../core/scrub.ts'

/** An OpenAI-compatible server with `/chat/completions`. */
export interface Endpoint {
  /** Such as `https://api.openai.com/v1`. */
  readonly baseUrl: string
  readonly model: string
  readonly apiKey?: string
  /** Such as `openai` or `ollama`: decides how the model is given tools. */
  readonly provider?: string
  readonly headers?: Readonly<Record<string, string>>
  /** More of the request, such as `temperature`. */
  readonly body?: Readonly<Record<string, unknown>>
  /** Longest wait for one answer; default 120,000. */
  readonly timeoutMs?: number
  readonly fetch?: typeof fetch
}

/** A message as chat completions have it. */
export interface ChatMessage {
  readonly role: string
  readonly content?: unknown
  readonly [key: string]: unknown
}

export type ChatAnswer =
  | { readonly ok: true; readonly message: ChatMessage; readonly usage: Readonly<Record<string, unknown>> }
  /** The server refused; `text` is what it said. */
  | { readonly ok: false; readonly status: number; readonly text: string }

const TIMEOUT_MS = 120_000

/** One request for an answer. @throws PegboardError E_CANCELLED, E_TIMEOUT, E_BACKEND_UNAVAILABLE */
export async function chat(
  endpoint: Endpoint,
  request: Readonly<Record<string, unknown>>,
  signal: AbortSignal | undefined,
): Promise<ChatAnswer> {
  const { baseUrl, model, apiKey, headers, body, timeoutMs = TIMEOUT_MS } = endpoint
  const ask = endpoint.fetch ?? fetch
  const limit = limited(signal, timeoutMs)
  try {
    const response = await ask(`${baseUrl.endsWith('/') ? baseUrl.slice(0, -1) : baseUrl}/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        ...headers,
      },
      body: JSON.stringify({ model, ...body, ...request }),
      signal: limit.signal,
    })
    const text = await response.text()
    return response.ok ? read(text) : { ok: false, status: response.status, text }
  } catch (error) {
    if (isPegboardError(error)) throw error
    if (signal?.aborted) throw conversationCancelled()
    if (limit.late)
      throw new PegboardError('E_TIMEOUT', `The model took longer than ${timeoutMs} ms.`, {
        hint: 'Raise endpoint.timeoutMs, or ask for less.',
      })
    throw unreachable(`The model cannot be reached: ${scrub(messageOf(error))}`, error)
  } finally {
    limit.free()
  }
}

function read(text: string): ChatAnswer {
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch (error) {
    throw unreachable('The model answered with something that is not JSON.', error)
  }
  const choices = isRecord(data) ? data['choices'] : undefined
  const first: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isRecord(data) || !isRecord(first) || !isRecord(first['message']))
    throw unreachable('The model answered without a message.')
  const { message } = first
  const usage = isRecord(data['usage']) ? data['usage'] : {}
  return { ok: true, message: { ...message, role: 'assistant' }, usage }
}

/** What the endpoint said against a request, as an error. */
export function refused(status: number, text: string): PegboardError {
  const { error } = (parsed(text) ?? {}) as { readonly error?: unknown }
  const said = isRecord(error) ? error['message'] : error
  const why = typeof said === 'string' ? `: ${scrub(said)}` : ''
  return unreachable(`The model's server answered ${status}${why}`)
}

export function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    // Proxies answer in HTML.
    return undefined
  }
}

const unreachable = (message: string, cause?: unknown): PegboardError =>
  new PegboardError('E_BACKEND_UNAVAILABLE', message, {
    cause,
    hint: 'Check endpoint.baseUrl, endpoint.apiKey and endpoint.model.',
  })

export const conversationCancelled = (): PegboardError =>
  new PegboardError('E_CANCELLED', 'The conversation was cancelled.')

/** What a message says, as text. */
export function contentOf({ content }: ChatMessage): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.flatMap((part) => (isRecord(part) && typeof part['text'] === 'string' ? [part['text']] : [])).join('')
}
