import { isPegboardError, type Log, ToolError } from 'pegboard'
import { blobOf, encodeForm } from '../_form.ts'
import { asRecord, isRecord } from '../_is-record.ts'
import { createOriginFetch } from '../_origin-fetch.ts'
import { parseJsonText } from '../_text.ts'
import { SETTING, type Settings, tokenOf } from './config.ts'

/** Longer waits are treated as a mistake; timers have a maximum too. */
const MAX_RETRY_AFTER_S = 24 * 60 * 60

/** A file as a form part for the Bot API. */
export interface Upload {
  readonly field: string
  readonly filename: string
  readonly mimetype: string
  readonly bytes: Uint8Array
}

/** The Bot API, https://core.telegram.org/bots/api. */
export interface BotApi {
  /**
   * @returns the `result` of the API
   * @throws ToolError E_RATE_LIMITED while Telegram asks to wait, E_BACKEND_UNAVAILABLE if it does not answer,
   * otherwise E_TOOL_FAILED with its message
   */
  call(method: string, params?: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<unknown>
  /** Downloads the `file_path` of `getFile`. */
  download(filePath: string, maxBytes: number, signal?: AbortSignal): Promise<Uint8Array>
  close(): Promise<void>
}

interface CallOptions {
  readonly upload?: Upload | undefined
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number
}

/** @param now milliseconds since the epoch */
export function createBotApi(settings: Settings, log: Log, now: () => number = Date.now): BotApi {
  const token = tokenOf(settings) ?? ''
  const base = settings.base_url.replace(/\/+$/, '')
  const fetch = createOriginFetch(base, {
    setting: `${SETTING}.base_url`,
    timeoutMs: settings.timeout * 1000,
    userAgent: settings.user_agent,
  })
  let limitedUntil = 0

  /** The URL contains the token, and error messages contain URLs. */
  const redact = (text: string): string =>
    text.replaceAll(token, '<redacted>').replaceAll(encodeURIComponent(token), '<redacted>')

  function createRequestError(method: string, error: unknown): unknown {
    if (!isPegboardError(error)) return error
    const message = redact(`Telegram did not accept bot${token}/${method}: ${error.message}`)
    log.warn(message, { code: error.code })
    return new ToolError(message, {
      code: error.code === 'E_TOO_LARGE' ? 'E_TOO_LARGE' : 'E_BACKEND_UNAVAILABLE',
      hint: `Try again later. See ${SETTING}.base_url.`,
      retryable: error.code !== 'E_TOO_LARGE' && error.code !== 'E_NOT_FOUND',
    })
  }

  function createAnswerError(method: string, { code, description, retryAfter }: ApiAnswer): ToolError {
    if (code === 429) {
      const seconds = Math.min(MAX_RETRY_AFTER_S, Math.max(1, Math.ceil(retryAfter)))
      limitedUntil = now() + seconds * 1000
      return createLimitError()
    }
    const message = redact(`Telegram refused bot${token}/${method}: ${code} ${description}`).slice(0, 400)
    log.warn(message)
    return new ToolError(message, {
      code: code >= 500 ? 'E_BACKEND_UNAVAILABLE' : 'E_TOOL_FAILED',
      hint:
        code === 401 || code === 404
          ? `The bot's token is wrong (${SETTING}.token). Ask the operator.`
          : 'Change the parameters, or continue without it.',
    })
  }

  const createLimitError = (): ToolError => {
    const seconds = Math.ceil((limitedUntil - now()) / 1000)
    return new ToolError(`Telegram allows no requests for ${seconds} s.`, {
      code: 'E_RATE_LIMITED',
      hint: 'Wait that long, then try again.',
      retryable: true,
      retryAfterMs: limitedUntil - now(),
      data: { retryAfter: seconds },
    })
  }

  return {
    async call(method, params = {}, { upload, signal, timeoutMs } = {}) {
      if (now() < limitedUntil) throw createLimitError()
      const request = await encodeRequest(params, upload)
      let answer: ApiAnswer
      try {
        const response = await fetch(`${base}/bot${token}/${method}`, {
          method: 'POST',
          ...request,
          ...(signal ? { signal } : {}),
          ...(timeoutMs === undefined ? {} : { timeoutMs }),
        })
        answer = parseAnswer(await response.text(), response.status)
      } catch (error) {
        throw createRequestError(method, error)
      }
      if (!answer.ok) throw createAnswerError(method, answer)
      return answer.result
    },
    async download(filePath, maxBytes, signal) {
      const path = filePath.split('/').map(encodeURIComponent).join('/')
      try {
        const response = await fetch(`${base}/file/bot${token}/${path}`, {
          maxBytes,
          maxWireBytes: maxBytes,
          ...(signal ? { signal } : {}),
        })
        if (!response.ok)
          throw new ToolError(`status ${response.status}`, {
            code: response.status === 404 ? 'E_NOT_FOUND' : 'E_BACKEND_UNAVAILABLE',
          })
        return new Uint8Array(await response.arrayBuffer())
      } catch (error) {
        throw createRequestError('getFile', error)
      }
    },
    close: () => fetch.close(),
  }
}

interface ApiAnswer {
  readonly ok: boolean
  readonly result: unknown
  readonly code: number
  readonly description: string
  /** Seconds. */
  readonly retryAfter: number
}

/** A proxy may return anything; then only the status is known. */
function parseAnswer(text: string, status: number): ApiAnswer {
  const answer = parseJsonText(text)?.value
  const { ok, result, error_code, description, parameters } = asRecord(answer)
  const { retry_after } = asRecord(parameters)
  return {
    ok: ok === true,
    result,
    code: typeof error_code === 'number' ? error_code : status,
    description:
      typeof description === 'string' ? description : isRecord(answer) ? 'no reason given' : 'the answer is not JSON',
    retryAfter: Number(typeof retry_after === 'object' ? 1 : retry_after) || 1,
  }
}

async function encodeRequest(params: Readonly<Record<string, unknown>>, upload: Upload | undefined) {
  if (!upload) return { body: JSON.stringify(params), headers: { 'content-type': 'application/json' } }
  const form = new FormData()
  for (const [name, value] of Object.entries(params))
    if (value !== undefined) form.append(name, typeof value === 'string' ? value : JSON.stringify(value))
  form.append(upload.field, blobOf(upload.bytes, upload.mimetype), upload.filename)
  return await encodeForm(form)
}
