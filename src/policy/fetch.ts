import { Readable } from 'node:stream'
import type { Agent, Dispatcher } from 'undici'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import type { Fetch, FetchInit } from '../core/fetch.ts'
import { limited } from '../core/limit.ts'
import type { NetRules } from './net.ts'
import { tlsTrouble } from './tls.ts'

export interface FetchOptions {
  /** Private networks and this machine may be reached; default false. Where clouds keep credentials is never reached. */
  readonly allowPrivate?: boolean
  /** The setting that decides that, for whoever reads a refusal. */
  readonly setting: string
  /** The setting that decides the sizes; default `setting`. */
  readonly sizeSetting?: string
  /** Throws for an address that may not be used; asked for every address a request leads to. */
  readonly check?: (url: URL) => void
  /** Default 5. */
  readonly maxRedirects?: number
  /** Default 30 s. */
  readonly timeoutMs?: number
  /** Default 10 MiB. */
  readonly maxWireBytes?: number
  /** Default 20 MiB. */
  readonly maxBytes?: number
  /** Default `pegboard`, for an empty one, too. */
  readonly userAgent?: string
  /** Answers of the name service; tests pass their own. */
  readonly lookup?: NetRules['lookup']
}

export interface GuardedFetch extends Fetch {
  /**
   * Whether an address may be reached, by the look of it and by every answer of the name service, for whoever has somebody else
   * ask for it. Nothing is sent there. Rejects as a request would.
   */
  check(url: string | URL): Promise<void>
  /** Ends all its connections. */
  close(): Promise<void>
}

const MIB = 1024 * 1024
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const NO_BODY = new Set([101, 204, 205, 304])
/** What goes along to another origin: nothing that could be a secret. */
const ANYONES = /^(?:accept(?:-language|-encoding)?|user-agent|range|if-(?:range|none-match|modified-since))$/

/**
 * Makes a guarded `fetch`; nothing is loaded or opened before the first request. It checks literal addresses, every answer
 * of the name service, the address the socket has in the end, and all of it again for each redirect. Certificates are always
 * checked, and proxies of the environment are not used.
 */
export function createFetch(options: FetchOptions): GuardedFetch {
  const rules: NetRules = {
    allow: new Set(options.allowPrivate ? (['public', 'private', 'loopback'] as const) : (['public'] as const)),
    http: true,
    setting: options.setting,
    ...(options.lookup ? { lookup: options.lookup } : {}),
  }
  let agent: Promise<Agent> | undefined
  const open = async (): Promise<Agent> => {
    const { createGuardedAgent } = await import('./net.ts')
    // The whole request has a time limit, so its parts have none.
    return createGuardedAgent(rules, { connect: { timeout: 5_000 }, headersTimeout: 0, bodyTimeout: 0 })
  }

  async function assertAllowed(url: URL): Promise<void> {
    const { assertReachable } = await import('./net.ts')
    assertReachable(url, rules)
    options.check?.(url)
  }

  async function send(url: URL, { method, headers, body }: Request, signal: AbortSignal) {
    agent ??= open()
    const undici = (await import('undici')).default
    return await undici.request(url, {
      method: method as Dispatcher.HttpMethod,
      headers,
      body:
        body instanceof URLSearchParams ? String(body) : body && isStream(body) ? Readable.from(body) : (body ?? null),
      signal,
      dispatcher: await agent,
    })
  }

  async function guardedFetch(given: string | URL, init: FetchInit = {}): Promise<Response> {
    const { timeoutMs = options.timeoutMs ?? 30_000 } = init
    const limit = limited(init.signal, timeoutMs)
    const told = (error: unknown): unknown => {
      if (init.signal?.aborted) return init.signal.reason
      if (limit.late)
        return new PegboardError('E_TIMEOUT', `The address did not answer within ${timeoutMs} ms.`, {
          hint: 'Ask for less, or allow more time.',
        })
      return reachError(error)
    }
    const { ENCODINGS, unpacked } = await import('./unpack.ts')
    let url = addressOf(given)
    let request: Request = {
      method: (init.method ?? 'GET').toUpperCase(),
      headers: {
        'user-agent': options.userAgent || 'pegboard',
        'accept-encoding': ENCODINGS,
        ...(init.body instanceof URLSearchParams ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
        ...lowered(init.headers),
      },
      body: init.body,
    }
    await assertAllowed(url)
    for (let hops = 0; ; hops++) {
      let answer: Dispatcher.ResponseData | undefined
      try {
        init.signal?.throwIfAborted()
        answer = await send(url, request, limit.signal)
        const location = REDIRECTS.has(answer.statusCode) ? text(answer.headers['location']) : ''
        if (location === '' || init.redirect === 'manual') {
          const caps = {
            maxWireBytes: init.maxWireBytes ?? options.maxWireBytes ?? 10 * MIB,
            maxBytes: init.maxBytes ?? options.maxBytes ?? 20 * MIB,
            setting: options.sizeSetting ?? options.setting,
          }
          const empty = NO_BODY.has(answer.statusCode) || request.method === 'HEAD'
          answer.body.once('close', limit.free)
          if (empty) await answer.body.dump()
          const body = empty ? null : unpacked(answer.body, text(answer.headers['content-encoding']), caps)
          return response(answer, url, hops > 0, body && translated(body, told))
        }
        await answer.body.dump()
        if (init.redirect === 'error') throw redirect('it redirects to another address, which is not followed')
        if (hops >= (options.maxRedirects ?? 5)) throw redirect(`it redirects more than ${hops} times`)
        const next = nextAddress(location, url)
        if (init.redirect === 'same-origin' && next.origin !== url.origin)
          throw redirect('it redirects to another origin, which is not followed')
        init.checkRedirect?.(next)
        request = nextRequest(request, answer.statusCode, next.origin !== url.origin)
        await assertAllowed(next).catch(redirected)
        url = next
      } catch (error) {
        // Nobody reads it any more: its connection would be held as long as it goes on.
        answer?.body.on('error', () => undefined).destroy()
        limit.free()
        const failure = told(error)
        throw hops > 0 && isPegboardError(failure) && failure.code === 'E_SSRF_BLOCKED' ? redirected(failure) : failure
      }
    }
  }

  return Object.assign(guardedFetch, {
    async check(given: string | URL) {
      const url = addressOf(given)
      await assertAllowed(url)
      const { assertResolves } = await import('./net.ts')
      try {
        await assertResolves(url, rules)
      } catch (error) {
        throw reachError(error)
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
const text = (value: string | string[] | undefined): string => (Array.isArray(value) ? (value[0] ?? '') : (value ?? ''))
const lowered = (headers: FetchInit['headers'] = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** @throws PegboardError E_VALIDATION, which does not repeat the address: it may hold a password */
function addressOf(given: string | URL): URL {
  const url = URL.canParse(String(given)) ? new URL(String(given)) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new PegboardError(
    'E_VALIDATION',
    url ? `Addresses of the kind "${url.protocol}" are not used.` : 'This is no address.',
    {
      hint: 'Give a whole address with http:// or https://.',
    },
  )
}

function nextAddress(location: string, from: URL): URL {
  const next = URL.canParse(location, from.href) ? new URL(location, from.href) : undefined
  if (!next || (next.protocol !== 'http:' && next.protocol !== 'https:'))
    throw redirect('it redirects to something that is no http or https address')
  if (from.protocol === 'https:' && next.protocol === 'http:') throw redirect('it redirects from https to plain http')
  return next
}

/** What is asked of the next address: a GET, unless the redirect says that the same is to be asked again. */
function nextRequest({ method, headers, body }: Request, status: number, elsewhere: boolean): Request {
  const toGet = (status === 303 && method !== 'HEAD') || (status < 303 && method === 'POST')
  if (!toGet && body !== undefined && elsewhere) throw redirect('it redirects what was sent to another origin')
  if (!toGet && body !== undefined && isStream(body)) throw redirect('it wants to be sent the same again')
  const kept = Object.entries(headers).filter(
    ([name]) => (!elsewhere || ANYONES.test(name)) && !(toGet && name.startsWith('content-')),
  )
  return { method: toGet ? 'GET' : method, headers: Object.fromEntries(kept), body: toGet ? undefined : body }
}

const redirect = (why: string, hint?: string): PegboardError =>
  new PegboardError('E_REDIRECT_BLOCKED', `The address is refused: ${why}.`, hint ? { hint } : {})

/** What is refused of a redirect's address, as what is refused of a redirect. Throws where a promise is waited for. */
function redirected(error: unknown): never {
  if (isPegboardError(error) && error.code === 'E_SSRF_BLOCKED')
    throw redirect('it redirects to one that may not be reached', error.hint)
  throw error
}

function response(answer: Dispatcher.ResponseData, url: URL, moved: boolean, body: AsyncIterable<Uint8Array> | null) {
  const headers = new Headers()
  for (const [name, value] of Object.entries(answer.headers))
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) headers.append(name, one)
  const stream = body && (Readable.toWeb(Readable.from(body, { objectMode: false })) as ReadableStream<Uint8Array>)
  const made = new Response(stream, { status: answer.statusCode, headers })
  // As the global fetch has it, which a constructor cannot say.
  return Object.defineProperties(made, { url: { value: withoutFragment(url) }, redirected: { value: moved } })
}

const withoutFragment = ({ href, hash }: URL): string => (hash === '' ? href : href.slice(0, -hash.length))

async function* translated(body: AsyncIterable<Uint8Array>, told: (error: unknown) => unknown) {
  try {
    yield* body
  } catch (error) {
    throw told(error)
  }
}

const NO_NAME = new Set(
  'ENOTFOUND EAI_AGAIN EAI_FAIL EAI_NODATA ENODATA ETIMEOUT ESERVFAIL EREFUSED EBADNAME'.split(' '),
)

/** What the parser of undici says, and zlib of what is not packed as its header says. */
const NO_HTTP =
  /^(?:UND_ERR_(?:HEADERS_OVERFLOW|RES_CONTENT_LENGTH_MISMATCH)$|Z_(?:DATA|BUF|STREAM|NEED_DICT|VERSION)|ERR__?(?:ZLIB|BROTLI))/

/** A failure of the network as one of ours. What it says of addresses stays in its cause, for the log. */
function reachError(error: unknown): unknown {
  if (isPegboardError(error)) return error
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  const tls = tlsTrouble(code)
  if (tls !== undefined)
    return new PegboardError('E_TLS', `There is no safe connection to the address: ${tls}.`, { cause: error })
  if (NO_NAME.has(code)) return new PegboardError('E_DNS', 'The name in the address is not known.', { cause: error })
  if (NO_HTTP.test(code) || (error as Error | null)?.name === 'HTTPParserError')
    return new PegboardError('E_HTTP_PROTOCOL', 'The answer of the address is not valid HTTP.', { cause: error })
  if (code === 'UND_ERR_INVALID_ARG')
    return new PegboardError('E_VALIDATION', 'The request cannot be sent: its method or headers are malformed.', {
      cause: error,
    })
  return new PegboardError('E_BACKEND_UNAVAILABLE', 'The address cannot be reached, or broke off.', {
    hint: 'Check the address, or try again later.',
    cause: error,
  })
}
