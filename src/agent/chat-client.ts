import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { postJson } from '../core/post-json.ts'
import { scrub } from '../core/scrub.ts'
import { tryParseJson } from '../core/try-parse-json.ts'

/** A server with OpenAI's `/chat/completions`. */
export interface Endpoint {
  /** For example `https://api.openai.com/v1`. */
  readonly baseUrl: string
  readonly model: string
  readonly apiKey?: string
  /** For example `openai` or `ollama`; decides how tools are passed to the model. */
  readonly provider?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Additional fields of the request, such as `temperature`. */
  readonly body?: Readonly<Record<string, unknown>>
  /** Maximum wait for one answer, in milliseconds; default 120,000. */
  readonly timeoutMs?: number
  readonly fetch?: typeof fetch
}

/** A message of the chat completions API. */
export interface ChatMessage {
  readonly role: string
  readonly content?: unknown
  readonly [key: string]: unknown
}

export type ChatAnswer =
  | { readonly ok: true; readonly message: ChatMessage; readonly usage: Readonly<Record<string, unknown>> }
  /** The server rejected the request; `text` is its answer. */
  | { readonly ok: false; readonly status: number; readonly text: string }

const TIMEOUT_MS = 120_000
const MAX_ANSWER_BYTES = 64 * 1024 * 1024

/** Sends one request. @throws PegboardError E_CANCELLED, E_TIMEOUT, E_BACKEND_UNAVAILABLE */
export async function chat(
  endpoint: Endpoint,
  request: Readonly<Record<string, unknown>>,
  signal: AbortSignal | undefined,
): Promise<ChatAnswer> {
  const { baseUrl, model, apiKey, headers, body, timeoutMs = TIMEOUT_MS } = endpoint
  try {
    const answer = await postJson({
      url: `${baseUrl.replace(/\/$/, '')}/chat/completions`,
      body: { model, ...body, ...request },
      apiKey,
      headers,
      timeoutMs,
      signal,
      maxBytes: MAX_ANSWER_BYTES,
      redirect: 'follow',
      fetch: endpoint.fetch ?? fetch,
    })
    const { status } = answer
    // Some servers repeat the key in their errors.
    const text = apiKey ? answer.text.replaceAll(apiKey, '<key>') : answer.text
    return status >= 200 && status < 300 ? read(status, text) : { ok: false, status, text }
  } catch (error) {
    if (signal?.aborted) throw conversationCancelled()
    if (isPegboardError(error) && error.code === 'E_TIMEOUT')
      throw new PegboardError('E_TIMEOUT', `The model took longer than ${timeoutMs} ms.`, {
        hint: 'Raise endpoint.timeoutMs, or ask for less.',
      })
    if (isPegboardError(error)) throw error
    throw createUnreachableError(`The model cannot be reached: ${scrub(messageOf(error))}`, error)
  }
}

function read(status: number, text: string): ChatAnswer {
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch (error) {
    throw createUnreachableError('The response of the model is not JSON.', error)
  }
  if (isRecord(data) && isRecord(data['error'])) throw createRejection(status, text)
  const choices = asRecord(data)['choices']
  const first: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isRecord(data) || !isRecord(first) || !isRecord(first['message']))
    throw createUnreachableError('The response of the model has no message.')
  const { message } = first
  const usage = asRecord(data['usage'])
  return { ok: true, message: { ...message, role: 'assistant' }, usage }
}

/** The endpoint's rejection as an error. `retryable` is false if the request must change first. */
export function createRejection(status: number, text: string): PegboardError {
  const { error } = parseBody(text)
  const message = isRecord(error) ? error['message'] : error
  const why = typeof message === 'string' ? `: ${scrub(message)}` : ''
  const retryable = status < 400 || status >= 500 || status === 408 || status === 429
  return createUnreachableError(`The model's server returned status ${status}${why}`, undefined, retryable)
}

/** The members of an answer; none for the HTML of a proxy. */
export const parseBody = (text: string): Json => asRecord(tryParseJson(text))

const createUnreachableError = (message: string, cause?: unknown, retryable = true): PegboardError =>
  new PegboardError('E_BACKEND_UNAVAILABLE', message, {
    cause,
    retryable,
    hint: 'Check endpoint.baseUrl, endpoint.apiKey and endpoint.model.',
  })

export const conversationCancelled = (): PegboardError =>
  new PegboardError('E_CANCELLED', 'The conversation was cancelled.')

export function contentOf({ content }: ChatMessage): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.flatMap((part) => (isRecord(part) && typeof part['text'] === 'string' ? [part['text']] : [])).join('')
}
