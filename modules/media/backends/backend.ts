import { type CallContext, type Fetch, type FetchInit, isPegboardError, type Processes, ToolError } from 'pegboard'
import { parsed } from '../../_text.ts'
import type { Mode, Settings } from '../config.ts'
import type { Reference } from '../store.ts'

/** A picture as it is asked for. */
export interface Wanted {
  readonly mode: Mode
  readonly prompt: string
  /** Only for backends that take it. */
  readonly negative: string | undefined
  readonly width: number
  readonly height: number
  readonly references: readonly Reference[]
  /** What else the call says, by the names of its parameters. */
  readonly more: Readonly<Record<string, unknown>>
}

export interface Surroundings {
  /** Reaches the backend and nothing else. */
  readonly fetch: Fetch
  /** Reaches public addresses. */
  readonly publicFetch: Fetch
  readonly processes: Processes | null
  /** An absolute folder for files of a moment. */
  readonly cacheDir: string
  readonly ctx: Pick<CallContext<Settings>, 'signal' | 'progress'>
}

export const unavailable = (what: string, hint: string): ToolError =>
  new ToolError(what, { code: 'E_BACKEND_UNAVAILABLE', hint, retryable: true })

/** Asks a backend, and says in its own words what it did not like. `setting` is where it is configured. */
export async function ask(
  fetch: Fetch,
  url: string,
  init: FetchInit,
  { setting, secret }: { readonly setting: string; readonly secret?: string | undefined },
): Promise<Response> {
  const hint = `${setting} says where it is.`
  let response: Response
  try {
    response = await fetch(url, init)
  } catch (error) {
    if (!isPegboardError(error) || error.code === 'E_CANCELLED') throw error
    throw unavailable(`The backend did not answer: ${error.message}`, hint)
  }
  if (response.ok) return response
  const body = await response.text()
  // Cut afterwards: half a key is one that nothing recognizes.
  const words = (secret === undefined ? body : body.replaceAll(secret, '<key>')).slice(0, 300)
  throw response.status >= 500 || response.status === 401 || response.status === 403
    ? unavailable(`The backend answered ${response.status}: ${words}`, hint)
    : new ToolError(`The backend refused it with ${response.status}: ${words}`, { hint: 'Change what is asked.' })
}

/** What a backend says as JSON. @throws ToolError where it says something else */
export async function jsonOf(response: Response): Promise<Readonly<Record<string, unknown>>> {
  const found = parsed(await response.text())?.value
  if (typeof found !== 'object' || found === null || Array.isArray(found))
    throw new ToolError('The backend answered with something else than was asked for.', {
      code: 'E_BACKEND_UNAVAILABLE',
      hint: 'The operator checks that it is what modules.media.config says it is.',
    })
  return found as Readonly<Record<string, unknown>>
}

export const bearer = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { authorization: `Bearer ${key}` }

/** A form as bytes, with its type. */
export async function encoded(form: FormData) {
  const made = new Response(form)
  const type = made.headers.get('content-type') ?? ''
  return { body: new Uint8Array(await made.arrayBuffer()), type }
}

export const blobOf = ({ data, mimetype }: { readonly data: Uint8Array; readonly mimetype: string }): Blob =>
  new Blob([Uint8Array.from(data)], { type: mimetype })

/** Puts what was asked for in the place of `%name%`; a text that is nothing else keeps the value's type. */
export function filled(value: unknown, values: Readonly<Record<string, unknown>>): unknown {
  if (typeof value === 'string') {
    const whole = /^%(\w+)%$/.exec(value)?.[1]
    if (whole !== undefined && whole in values) return values[whole]
    return value.replace(/%(\w+)%/g, (mark, name: string) => (name in values ? String(values[name] ?? '') : mark))
  }
  if (Array.isArray(value)) return value.map((one) => filled(one, values))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner, values)]))
  return value
}
