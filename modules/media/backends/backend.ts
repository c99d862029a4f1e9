import { type CallContext, type Fetch, type FetchInit, isPegboardError, type Processes, ToolError } from 'pegboard'
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
  readonly more: Readonly<Record<string, unknown>>
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

export const unavailable = (what: string, hint: string): ToolError =>
  new ToolError(what, { code: 'E_BACKEND_UNAVAILABLE', hint, retryable: true })

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
  const words = (secret === undefined ? body : body.replaceAll(secret, '<key>')).slice(0, 300)
  throw response.status >= 500 || response.status === 401 || response.status === 403
    ? unavailable(`The backend answered ${response.status}: ${words}`, hint)
    : new ToolError(`The backend refused the request with ${response.status}: ${words}`, {
        hint: 'Change the request.',
      })
}

/** The backend's response as JSON. @throws ToolError if it is not JSON */
export async function jsonOf(response: Response): Promise<Readonly<Record<string, unknown>>> {
  const found = parseJsonText(await response.text())?.value
  if (typeof found !== 'object' || found === null || Array.isArray(found))
    throw new ToolError('The backend answered with an unexpected type.', {
      code: 'E_BACKEND_UNAVAILABLE',
      hint: 'The operator checks the address in modules.media.config.',
    })
  return found as Readonly<Record<string, unknown>>
}

export const bearer = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { authorization: `Bearer ${key}` }

/** A form as bytes, with its content type. */
export async function encodeForm(form: FormData) {
  const response = new Response(form)
  const type = response.headers.get('content-type') ?? ''
  return { body: new Uint8Array(await response.arrayBuffer()), type }
}

export const blobOf = ({ data, mimetype }: { readonly data: Uint8Array; readonly mimetype: string }): Blob =>
  new Blob([Uint8Array.from(data)], { type: mimetype })

/** Replaces `%name%` placeholders; a text that consists of one placeholder keeps the type of its value. */
export function fillPlaceholders(value: unknown, values: Readonly<Record<string, unknown>>): unknown {
  if (typeof value === 'string') {
    const whole = /^%(\w+)%$/.exec(value)?.[1]
    if (whole !== undefined && whole in values) return values[whole]
    return value.replace(/%(\w+)%/g, (mark, name: string) => (name in values ? String(values[name] ?? '') : mark))
  }
  if (Array.isArray(value)) return value.map((one) => fillPlaceholders(one, values))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, fillPlaceholders(inner, values)]))
  return value
}
