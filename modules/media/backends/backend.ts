import { type CallContext, type Fetch, type FetchInit, isPegboardError, type Processes, ToolError } from 'pegboard'
import { unavailable } from '../../_errors.ts'
import { isRecord, type Json } from '../../_is-record.ts'
import { parseJsonText } from '../../_text.ts'
import type { Mode, Settings } from '../config.ts'
import type { Reference } from '../store.ts'

export interface ImageRequest {
  readonly mode: Mode
  readonly prompt: string
  /** Only for backends that support it. */
  readonly negative: string | undefined
  readonly width: number
  readonly height: number
  readonly references: readonly Reference[]
  /** The other parameters of the call. */
  readonly parameters: Json
}

export interface BackendContext {
  /** Reaches the backend only. */
  readonly fetch: Fetch
  /** Reaches public addresses. */
  readonly publicFetch: Fetch
  readonly processes: Processes | null
  /** Absolute path of a folder for temporary files. */
  readonly cacheDir: string
  readonly ctx: Pick<CallContext<Settings>, 'signal' | 'progress'>
}

/** Sends a request to a backend and reports its own error message. `setting` is where the backend is configured. */
export async function sendToBackend(
  fetch: Fetch,
  url: string,
  init: FetchInit,
  { setting, secret }: { readonly setting: string; readonly secret?: string | undefined },
): Promise<Response> {
  const hint = `See ${setting}.`
  let response: Response
  try {
    response = await fetch(url, init)
  } catch (error) {
    if (!isPegboardError(error) || error.code === 'E_CANCELLED') throw error
    throw unavailable(`The backend did not answer: ${error.message}`, hint)
  }
  if (response.ok) return response
  const body = await response.text()
  // Shortened after redaction, because half a key would not be recognized.
  const reason = (secret === undefined ? body : body.replaceAll(secret, '<key>')).slice(0, 300)
  throw response.status >= 500 || response.status === 401 || response.status === 403
    ? unavailable(`The backend answered ${response.status}: ${reason}`, hint)
    : new ToolError(`The backend refused the request with ${response.status}: ${reason}`, {
        hint: 'Change the request.',
      })
}

/** The backend's response as JSON. @throws ToolError if it is not JSON */
export async function parseAnswer(response: Response): Promise<Json> {
  const answer = parseJsonText(await response.text())?.value
  if (!isRecord(answer))
    throw unavailable(
      'The backend answered with an unexpected type.',
      'The operator checks the address in modules.media.config.',
    )
  return answer
}

export const bearer = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { authorization: `Bearer ${key}` }

/** Replaces `%name%` placeholders; a text that consists of one placeholder keeps the type of its value. */
export function fillPlaceholders(value: unknown, values: Readonly<Record<string, unknown>>): unknown {
  if (typeof value === 'string') {
    const onlyName = /^%(\w+)%$/.exec(value)?.[1]
    if (onlyName !== undefined && onlyName in values) return values[onlyName]
    return value.replace(/%(\w+)%/g, (mark, name: string) => (name in values ? String(values[name] ?? '') : mark))
  }
  if (Array.isArray(value)) return value.map((item) => fillPlaceholders(item, values))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, fillPlaceholders(inner, values)]))
  return value
}
