import { Readable } from 'node:stream'
import type { Agent, Dispatcher } from 'undici'
import { abortAfter } from '../core/abort.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import type { Fetch, FetchInit } from '../core/fetch-types.ts'
import type { NetRules } from './network-rules.ts'
import { OWN_NETWORK } from './own-network.ts'
import { describeTlsError } from './tls-errors.ts'
import { isBodyless, toResponse } from './to-response.ts'

export interface FetchOptions {
  /** Allow private networks and this machine; default false. Link-local and cloud metadata addresses are never allowed. */
  readonly allowPrivate?: boolean
  /** The setting for private networks, which errors name. */
  readonly setting: string
  /** The setting for size limits; default `setting`. */
  readonly sizeSetting?: string
  /** Throws for a URL that may not be used. Called for every URL of a request, including redirects. */
  readonly check?: (url: URL) => void
  /** Default 5. */
  readonly maxRedirects?: number
  /** Default 30 s. */
  readonly timeoutMs?: number
  /** Default 10 MiB. */
  readonly maxWireBytes?: number
  /** Default 20 MiB. */
  readonly maxBytes?: number
  /** Default `pegboard`, also for an empty string. */
  readonly userAgent?: string
  /** DNS lookup; tests pass their own. */
  readonly lookup?: NetRules['lookup']
}

export interface GuardedFetch extends Fetch {
  /**
   * Rejects, as a request would, if the URL or any DNS answer for it is not allowed. Sends nothing. For callers that
   * let another program make the request.
   */
  check(url: string | URL): Promise<void>
  close(): Promise<void>
}

const MIB = 1024 * 1024
const REDIRECTS = new Set([301, 302, 303, 307, 308])
/** Headers that are sent to another origin after a redirect: none that can contain a secret. */
const CROSS_ORIGIN_HEADERS =
  /^(?:accept(?:-language|-encoding)?|user-agent|range|if-(?:range|none-match|modified-since))$/

/**
 * Creates a guarded `fetch`. It checks literal addresses, every DNS answer and the address of the connected socket,
 * again for each redirect. Certificates are always verified, and proxy variables are ignored. Loads nothing before
 * the first request.
 */
export function createFetch(options: FetchOptions): GuardedFetch {
  const rules: NetRules = {
    allow: new Set(['public', ...(options.allowPrivate ? OWN_NETWORK : [])]),
    http: true,
    setting: options.setting,
    ...(options.lookup ? { lookup: options.lookup } : {}),
  }
  let agent: Promise<Agent> | undefined
  const createAgent = async (): Promise<Agent> => {
    const { createGuardedAgent } = await import('./network-rules.ts')
    // The whole request has a time limit, so its phases need none.
    return createGuardedAgent(rules, { connect: { timeout: 5_000 }, headersTimeout: 0, bodyTimeout: 0 })
  }

  async function assertAllowed(url: URL): Promise<void> {
    const { assertReachable } = await import('./network-rules.ts')
    assertReachable(url, rules)
    options.check?.(url)
  }

  async function send(url: URL, { method, headers, body }: Request, signal: AbortSignal) {
    agent ??= createAgent()
    const undici = (await import('undici')).default
    return await undici.request(url, {
      method: method as Dispatcher.HttpMethod,
      headers,
      body: toUndiciBody(body),
      signal,
      dispatcher: await agent,
    })
  }

  /** The address that a redirect leads to. Throws if the redirect may not be followed. */
  function nextAddress(location: string, from: URL, hops: number, { redirect, checkRedirect }: FetchInit): URL {
    if (redirect === 'error') throw createRedirectError('it redirects to another address, which is not followed')
    if (hops >= (options.maxRedirects ?? 5)) throw createRedirectError(`it redirects more than ${hops} times`)
    const next = parseLocation(location, from)
    if (redirect === 'same-origin' && next.origin !== from.origin)
      throw createRedirectError('it redirects to another origin, which is not followed')
    checkRedirect?.(next)
    return next
  }

  async function readBody(
    { body, headers, statusCode }: Dispatcher.ResponseData,
    { method }: Request,
    { maxWireBytes = options.maxWireBytes ?? 10 * MIB, maxBytes = options.maxBytes ?? 20 * MIB }: FetchInit,
  ): Promise<AsyncIterable<Uint8Array> | null> {
    if (isBodyless(statusCode) || method === 'HEAD') {
      await body.dump()
      return null
    }
    const { decompress } = await import('./decompress.ts')
    const setting = options.sizeSetting ?? options.setting
    return decompress(body, headerText(headers['content-encoding']), { maxWireBytes, maxBytes, setting })
  }

  async function guardedFetch(address: string | URL, init: FetchInit = {}): Promise<Response> {
    const { ENCODINGS } = await import('./decompress.ts')
    let url = parseAddress(address)
    let request = createRequest(init, { 'user-agent': options.userAgent || 'pegboard', 'accept-encoding': ENCODINGS })
    await assertAllowed(url)
    const { timeoutMs = options.timeoutMs ?? 30_000 } = init
    const limit = abortAfter(init.signal, timeoutMs)
    const translate = (error: unknown): unknown => {
      if (init.signal?.aborted) return init.signal.reason
      if (limit.timedOut)
        return new PegboardError('E_TIMEOUT', `The address did not answer within ${timeoutMs} ms.`, {
          hint: 'Ask for less, or allow more time.',
        })
      return toFetchError(error)
    }
    for (let hops = 0; ; hops++) {
      let answer: Dispatcher.ResponseData | undefined
      try {
        init.signal?.throwIfAborted()
        answer = await send(url, request, limit.signal)
        const location = REDIRECTS.has(answer.statusCode) ? headerText(answer.headers['location']) : ''
        if (location === '' || init.redirect === 'manual') {
          answer.body.once('close', limit.free)
          const body = await readBody(answer, request, init)
          return createResponse(answer, url, hops > 0, body && translateErrors(body, translate))
        }
        await answer.body.dump()
        const next = nextAddress(location, url, hops, init)
        request = nextRequest(request, answer.statusCode, next.origin !== url.origin)
        url = next
        await assertAllowed(url).catch((error: unknown) => {
          throw toRedirectError(error)
        })
      } catch (error) {
        // An unread body would keep the connection open.
        answer?.body.on('error', () => undefined).destroy()
        limit.free()
        throw hops > 0 ? toRedirectError(translate(error)) : translate(error)
      }
    }
  }

  return Object.assign(guardedFetch, {
    async check(address: string | URL) {
      const url = parseAddress(address)
      await assertAllowed(url)
      const { assertResolves } = await import('./network-rules.ts')
      try {
        await assertResolves(url, rules)
      } catch (error) {
        throw toFetchError(error)
      }
    },
    async close() {
      await (await agent)?.destroy()
      agent = undefined
    },
  })
}

interface Request {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: FetchInit['body']
}

const isStream = (body: NonNullable<FetchInit['body']>): body is AsyncIterable<Uint8Array> =>
  typeof body === 'object' && Symbol.asyncIterator in body
const headerText = (value: string | string[] | undefined): string =>
  Array.isArray(value) ? (value[0] ?? '') : (value ?? '')
const lowerHeaders = (headers: FetchInit['headers'] = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** @throws PegboardError E_VALIDATION without the address, which may contain a password */
function parseAddress(address: string | URL): URL {
  const url = URL.canParse(String(address)) ? new URL(String(address)) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new PegboardError(
    'E_VALIDATION',
    url ? `Addresses that begin with "${url.protocol}" are not supported.` : 'This is not a valid address.',
    { hint: 'Give a full address with http:// or https://.' },
  )
}

/** The first request, with these headers unless `init` has its own. */
const createRequest = ({ method = 'GET', headers, body }: FetchInit, defaults: Request['headers']): Request => ({
  method: method.toUpperCase(),
  headers: {
    ...defaults,
    ...(body instanceof URLSearchParams ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
    ...lowerHeaders(headers),
  },
  body,
})

function toUndiciBody(body: FetchInit['body']): string | Uint8Array | Readable | null {
  if (body === undefined) return null
  if (body instanceof URLSearchParams) return String(body)
  return isStream(body) ? Readable.from(body) : body
}

function parseLocation(location: string, from: URL): URL {
  const next = URL.canParse(location, from.href) ? new URL(location, from.href) : undefined
  if (!next || (next.protocol !== 'http:' && next.protocol !== 'https:'))
    throw createRedirectError('it redirects to an address that is not http or https')
  if (from.protocol === 'https:' && next.protocol === 'http:')
    throw createRedirectError('it redirects from https to plain http')
  return next
}

/** The request after a redirect: a GET, unless the status code demands the same method. */
function nextRequest({ method, headers, body }: Request, status: number, isOtherOrigin: boolean): Request {
  const toGet = (status === 303 && method !== 'HEAD') || (status < 303 && method === 'POST')
  if (!toGet && body !== undefined && isOtherOrigin)
    throw createRedirectError('it redirects the request body to another origin')
  if (!toGet && body !== undefined && isStream(body)) throw createRedirectError('it asks for the request body again')
  const remainingHeaders = Object.entries(headers).filter(
    ([name]) => (!isOtherOrigin || CROSS_ORIGIN_HEADERS.test(name)) && !(toGet && name.startsWith('content-')),
  )
  return {
    method: toGet ? 'GET' : method,
    headers: Object.fromEntries(remainingHeaders),
    body: toGet ? undefined : body,
  }
}

const createRedirectError = (why: string, hint?: string): PegboardError =>
  new PegboardError('E_REDIRECT_BLOCKED', `The address is refused: ${why}.`, hint ? { hint } : {})

/** Turns the refusal of a redirect's address into an error about the redirect. */
const toRedirectError = (error: unknown): unknown =>
  isPegboardError(error) && error.code === 'E_SSRF_BLOCKED'
    ? createRedirectError('it redirects to an address that is not allowed', error.hint)
    : error

function createResponse(
  answer: Dispatcher.ResponseData,
  url: URL,
  isRedirected: boolean,
  body: AsyncIterable<Uint8Array> | null,
) {
  const stream = body && (Readable.toWeb(Readable.from(body, { objectMode: false })) as ReadableStream<Uint8Array>)
  const result = toResponse(answer, stream)
  // The global fetch sets these properties, but the constructor cannot.
  return Object.defineProperties(result, { url: { value: withoutFragment(url) }, redirected: { value: isRedirected } })
}

const withoutFragment = ({ href, hash }: URL): string => (hash === '' ? href : href.slice(0, -hash.length))

async function* translateErrors(body: AsyncIterable<Uint8Array>, translate: (error: unknown) => unknown) {
  try {
    yield* body
  } catch (error) {
    throw translate(error)
  }
}

const NO_NAME = new Set(
  'ENOTFOUND EAI_AGAIN EAI_FAIL EAI_NODATA ENODATA ETIMEOUT ESERVFAIL EREFUSED EBADNAME'.split(' '),
)

/** Errors of undici's parser, and of zlib for data that is not compressed as its header says. */
const NO_HTTP =
  /^(?:UND_ERR_(?:HEADERS_OVERFLOW|RES_CONTENT_LENGTH_MISMATCH)$|Z_(?:DATA|BUF|STREAM|NEED_DICT|VERSION)|ERR__?(?:ZLIB|BROTLI))/

/** Converts a network error. Addresses stay in the cause, for the log only. */
function toFetchError(error: unknown): unknown {
  if (isPegboardError(error)) return error
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  const tls = describeTlsError(code)
  if (tls !== undefined)
    return new PegboardError('E_TLS', `The secure connection to the address failed: ${tls}.`, { cause: error })
  if (NO_NAME.has(code)) return new PegboardError('E_DNS', 'The host name in the address is unknown.', { cause: error })
  if (NO_HTTP.test(code) || (error as Error | null)?.name === 'HTTPParserError')
    return new PegboardError('E_HTTP_PROTOCOL', 'The answer of the address is not valid HTTP.', { cause: error })
  if (code === 'UND_ERR_INVALID_ARG')
    return new PegboardError('E_VALIDATION', 'The request cannot be sent: its method or headers are malformed.', {
      cause: error,
    })
  return new PegboardError('E_BACKEND_UNAVAILABLE', 'The address cannot be reached, or closed the connection.', {
    hint: 'Check the address, or try again later.',
    cause: error,
  })
}
