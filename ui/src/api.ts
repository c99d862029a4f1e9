import type { Problem } from '../../src/ui/api-types.ts'

/** A request that failed. Its message is for people. */
export class ApiError extends Error {
  readonly status: number
  readonly hint: string | undefined

  constructor(status: number, { message, hint }: Problem) {
    super(message)
    this.status = status
    this.hint = hint
  }
}

const API = '/ui/api/'

async function answerOf<T>(response: Response): Promise<T> {
  const value: unknown = await response.json().catch(() => undefined)
  if (response.ok) return value as T
  const problem = (value ?? {
    code: 'E_INTERNAL',
    message: `The server answered with HTTP ${response.status}.`,
  }) as Problem
  throw new ApiError(response.status, problem)
}

async function send<T>(path: string, init: RequestInit): Promise<T> {
  let response: Response
  try {
    response = await fetch(`${API}${path}`, { credentials: 'same-origin', cache: 'no-store', ...init })
  } catch {
    throw new ApiError(0, {
      code: 'E_UPSTREAM_UNAVAILABLE',
      message: 'Pegboard cannot be reached.',
      hint: 'Check that pegboard serve is running.',
    })
  }
  return await answerOf<T>(response)
}

const pathOf = (path: string, query: Readonly<Record<string, string>>): string => {
  const text = new URLSearchParams(query).toString()
  return text === '' ? path : `${path}?${text}`
}

export const get = <T>(path: string, query: Readonly<Record<string, string>> = {}): Promise<T> =>
  send<T>(pathOf(path, query), { method: 'GET' })

/** The header proves that this page sends the request: other origins cannot set it. */
export const post = <T>(
  path: string,
  body: unknown,
  query: Readonly<Record<string, string>> = {},
  more: Readonly<Record<string, string>> = {},
): Promise<T> =>
  send<T>(pathOf(path, query), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-pegboard-page': '1', ...more },
    body: JSON.stringify(body),
  })
