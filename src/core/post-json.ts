import { abortAfter } from './abort.ts'
import { isPegboardError, PegboardError } from './errors.ts'
import { readAll } from './read-all.ts'

type Init = Pick<RequestInit, 'method' | 'redirect'> & {
  headers: Record<string, string>
  body: string
  signal: AbortSignal
}

export interface JsonPost {
  readonly url: string | URL
  readonly body: object
  /** Sent as a bearer token. */
  readonly apiKey?: string | undefined
  /** Extra headers; they replace those set here. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Time limit in milliseconds for the whole exchange. */
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
  readonly maxBytes: number
  /** `follow` passes headers on, so only the URL of an operator or program should have it. */
  readonly redirect: 'follow' | 'manual'
  readonly fetch: (url: string | URL, init: Init) => Promise<Pick<Response, 'status' | 'headers' | 'body'>>
}

/** An answer of any status. */
export interface PostAnswer {
  readonly status: number
  readonly text: string
  readonly retryAfter: string | undefined
}

/**
 * Sends a request and reads its answer.
 * @throws the reason of `signal`; PegboardError E_TIMEOUT, or what the network guard throws; Error for anything else
 */
export async function postJson(post: JsonPost): Promise<PostAnswer> {
  const limit = abortAfter(post.signal, post.timeoutMs)
  try {
    const response = await post.fetch(post.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        ...(post.apiKey === undefined ? {} : { authorization: `Bearer ${post.apiKey}` }),
        ...post.headers,
      },
      body: JSON.stringify(post.body),
      signal: limit.signal,
      redirect: post.redirect,
    })
    const { status, headers, body } = response
    const text = body ? (await readAll(body, post.maxBytes)).toString() : ''
    return { status, text, retryAfter: headers.get('retry-after') ?? undefined }
  } catch (error) {
    if (post.signal?.aborted) throw post.signal.reason
    if (isPegboardError(error)) throw error
    if (limit.timedOut)
      throw new PegboardError('E_TIMEOUT', `No response within ${post.timeoutMs} ms.`, { cause: error })
    // `fetch` itself only says that it failed.
    throw (error as Error).cause ?? error
  } finally {
    limit.free()
  }
}
