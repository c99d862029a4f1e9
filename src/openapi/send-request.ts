import { STATUS_CODES } from 'node:http'
import { abortAfter } from '../core/abort.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import { readAll } from '../core/read-all.ts'
import type { AddressKind } from '../policy/network-rules.ts'
import { OPERATOR_NETWORK } from '../policy/own-network.ts'

/** An HTTP request. Never logged, because it may contain secrets. */
export interface ApiRequest {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  readonly timeoutMs: number
  readonly maxBytes: number
  readonly signal?: AbortSignal
}

export interface ApiResponse {
  /** The address of the request. May contain secrets. */
  readonly url: URL
  readonly status: number
  /** Status text, such as `Not Found`. */
  readonly reason: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

/** @throws PegboardError E_BACKEND_UNAVAILABLE, E_TIMEOUT, E_TOO_LARGE, E_SSRF_BLOCKED; or the signal's reason */
export type Send = (request: ApiRequest) => Promise<ApiResponse>

/**
 * Connections to one API. Redirects are returned, not followed. Private addresses and plain http are allowed only
 * where configured.
 * @param mayBePrivate true for addresses that may be private or plain http
 * @param setting that decides this, named in refusals
 */
export function createSender(id: string, mayBePrivate: (url: URL) => boolean, setting: string) {
  const agents = new Map<boolean, ReturnType<typeof createAgent>>()
  const createUnavailableError = (cause: unknown): PegboardError =>
    new PegboardError('E_BACKEND_UNAVAILABLE', `The API ${id} cannot be reached.`, { cause })

  async function send(request: ApiRequest): Promise<ApiResponse> {
    const { url, signal, timeoutMs, maxBytes } = request
    const { assertReachable } = await import('../policy/network-rules.ts')
    const allowPrivate = mayBePrivate(url)
    assertReachable(url, rulesFor(allowPrivate, setting))
    const agent = agents.get(allowPrivate) ?? createAgent(allowPrivate, setting)
    agents.set(allowPrivate, agent)
    const limit = abortAfter(signal, timeoutMs)
    let isAnswered = false
    try {
      const undici = (await import('undici')).default
      const response = await undici.request(url, {
        method: request.method as 'GET',
        headers: { 'user-agent': 'pegboard', 'accept-encoding': 'identity', ...request.headers },
        body: request.body ?? null,
        signal: limit.signal,
        dispatcher: await agent,
      })
      isAnswered = true
      const body = await readAll(response.body, maxBytes, () => createTooLargeError(maxBytes))
      const { statusCode: status, headers } = response
      return { url, status, reason: STATUS_CODES[status] ?? '', headers, body }
    } catch (error) {
      if (signal?.aborted) throw signal.reason
      if (limit.timedOut) throw new PegboardError('E_TIMEOUT', `The API ${id} did not answer within ${timeoutMs} ms.`)
      if (isPegboardError(error)) throw error
      throw isAnswered ? createTruncatedError(id, request.method, error) : createUnavailableError(error)
    } finally {
      limit.free()
    }
  }

  return {
    send,
    async close(): Promise<void> {
      await Promise.all([...agents.values()].map(async (agent) => (await agent).destroy()))
    },
  }
}

async function createAgent(allowPrivate: boolean, setting: string) {
  const { createGuardedAgent } = await import('../policy/network-rules.ts')
  return createGuardedAgent(rulesFor(allowPrivate, setting), {
    keepAliveTimeout: 30_000,
    bodyTimeout: 0,
    headersTimeout: 0,
  })
}

const rulesFor = (allowPrivate: boolean, setting: string) => ({
  allow: new Set<AddressKind>(['public', ...(allowPrivate ? OPERATOR_NETWORK : [])]),
  http: allowPrivate,
  setting,
})

/** Repeating the request is safe only if it changes nothing. */
function createTruncatedError(id: string, method: string, cause: unknown): PegboardError {
  const isSafe = method === 'GET' || method === 'HEAD'
  return new PegboardError(
    'E_BACKEND_UNAVAILABLE',
    `The API ${id} closed the connection before the end of its response.`,
    {
      cause,
      retryable: isSafe,
      hint: isSafe
        ? 'Try again later.'
        : 'The API may have done what the call asked for. Check this before you call it again.',
    },
  )
}

const createTooLargeError = (maxBytes: number): PegboardError =>
  new PegboardError('E_TOO_LARGE', `The answer is larger than ${maxBytes} bytes.`, {
    hint: 'Ask for less: fewer entries a page, a narrower query.',
  })
