import { setTimeout as sleep } from 'node:timers/promises'
import { isPegboardError, messageOf, PegboardError } from '../../core/errors.ts'
import { asRecord, isRecord } from '../../core/is-record.ts'
import { postJson } from '../../core/post-json.ts'
import { parseRetryAfter } from '../../core/retry-after.ts'
import { tryParseJson } from '../../core/try-parse-json.ts'
import { batchesOf, checkDims, type Embedder, type EmbedderSource } from '../embedder.ts'
import type { EmbedderSettings } from '../search-options.ts'

const BATCH_SIZE = 64
const ATTEMPTS = 4
const MAX_WAIT_MS = 60_000
const MAX_ANSWER = 64 * 1024 * 1024
const MAX_QUOTED = 300

/** The error of a response; `waitMs` is set if the same request may succeed later. */
interface FailedRequest {
  readonly error: Error
  readonly waitMs: number | undefined
}

/**
 * An embedder for servers with OpenAI's `POST /v1/embeddings` (Ollama, llama.cpp, vLLM, LM Studio and others). A
 * batch that fails with 429, 5xx or a broken connection is sent again up to three times, after the server's
 * Retry-After or 0.5, 1 and 2 s. A query is sent once, because a caller waits for it. Redirects are not followed.
 * @param address base URL (`http://127.0.0.1:11434/v1`) or full URL; `/v1/embeddings` is appended to a bare host
 * @throws PegboardError E_CONFIG_INVALID if the address cannot be used or no model is named
 */
export function createOpenaiEmbedder(
  address: string,
  settings: EmbedderSettings,
  { firstWaitMs = 500 }: { readonly firstWaitMs?: number } = {},
): EmbedderSource {
  const url = endpointOf(address)
  const { model, apiKey } = settings
  if (model === undefined)
    throw new PegboardError('E_CONFIG_INVALID', 'search.embedder "openai:…" needs search.embedderOptions.model.')
  const label = `openai:${url.host}`
  const size = settings.batchSize ?? BATCH_SIZE
  const redact = (text: string): string => {
    const redacted = apiKey === undefined ? text : text.replaceAll(apiKey, '<key>')
    return redacted.length > MAX_QUOTED ? `${redacted.slice(0, MAX_QUOTED)}…` : redacted
  }

  return {
    label,
    async load(signal) {
      // The default export, because bundlers leave the named exports of a CommonJS package undefined.
      const { Agent, fetch } = (await import('undici')).default
      const agent = new Agent({ keepAliveTimeout: 30_000, connect: { timeout: 10_000 } })

      async function post(texts: readonly string[], outer: AbortSignal): Promise<Float32Array[] | FailedRequest> {
        try {
          const { status, text, retryAfter } = await postJson({
            url,
            body: { model, input: texts, ...(settings.dims === undefined ? {} : { dimensions: settings.dims }) },
            apiKey,
            timeoutMs: settings.requestTimeoutMs,
            signal: outer,
            maxBytes: MAX_ANSWER,
            redirect: 'manual',
            fetch: (to, init) => fetch(to, { ...init, dispatcher: agent }),
          })
          if (status === 200) return vectorsOf(text, texts.length, label)
          return failureOf(status, redact(errorOf(text)), retryAfter, url)
        } catch (error) {
          outer.throwIfAborted()
          const timedOut = isPegboardError(error) && error.code === 'E_TIMEOUT'
          if (isPegboardError(error) && !timedOut) throw error
          const problem = timedOut ? `did not answer within ${settings.requestTimeoutMs} ms` : redact(messageOf(error))
          return { error: new Error(`${label}: ${problem}`, { cause: error }), waitMs: 0 }
        }
      }

      async function postWithRetries(
        texts: readonly string[],
        attempts: number,
        outer: AbortSignal,
      ): Promise<Float32Array[]> {
        for (let attempt = 1; ; attempt++) {
          const answer = await post(texts, outer)
          if (Array.isArray(answer)) return answer
          const { error, waitMs } = answer
          if (waitMs === undefined || waitMs > MAX_WAIT_MS || attempt >= attempts) throw error
          await sleep(waitMs || firstWaitMs * 2 ** (attempt - 1), undefined, { signal: outer })
        }
      }

      try {
        const [probe] = await postWithRetries(['tool'], ATTEMPTS, signal)
        const dims = probe!.length
        checkDims(`${label} (${model})`, dims, settings.dims)
        return {
          id: JSON.stringify(['openai', url.href, model, dims, settings.documentPrefix]),
          dims,
          async embed(texts, kind, outer) {
            const isQuery = kind === 'query'
            const prefix = isQuery ? settings.queryPrefix : settings.documentPrefix
            const vectors: Float32Array[] = []
            for (const batch of batchesOf(texts, size))
              vectors.push(
                ...(await postWithRetries(
                  batch.map((text) => prefix + text),
                  isQuery ? 1 : ATTEMPTS,
                  outer,
                )),
              )
            return vectors
          },
          close: () => agent.destroy(),
        } satisfies Embedder
      } catch (error) {
        await agent.destroy()
        throw error
      }
    },
  }
}

function endpointOf(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol))
    throw new PegboardError('E_CONFIG_INVALID', 'search.embedder: the text after "openai:" is not an http address.')
  if (url.username || url.password)
    throw new PegboardError('E_CONFIG_INVALID', 'search.embedder: the address holds a password.', {
      hint: 'Put the key into search.embedderOptions.apiKey, as "${NAME}".',
    })
  const path = url.pathname.replace(/\/+$/, '')
  url.pathname = path === '' ? '/v1/embeddings' : path.endsWith('/embeddings') ? path : `${path}/embeddings`
  return url
}

/** The server's error message, from `{error: {message}}`, `{error}`, `{message}` or plain text. */
function errorOf(body: string): string {
  const parsed = tryParseJson(body)
  if (!isRecord(parsed)) return body.trim().replaceAll(/\s+/g, ' ')
  const { error = parsed } = parsed
  const message = isRecord(error) ? (error['message'] ?? error['detail']) : error
  return typeof message === 'string' ? message : JSON.stringify(message ?? parsed)
}

function failureOf(status: number, detail: string, retryAfter: string | undefined, url: URL): FailedRequest {
  const message = `${url.host} answered ${status}${detail ? `: ${detail}` : ''}`
  const createConfigError = (what: string): FailedRequest => ({
    error: new PegboardError('E_CONFIG_INVALID', `${what} ${message}`),
    waitMs: undefined,
  })
  if (status === 401 || status === 403)
    return createConfigError('search.embedderOptions.apiKey is missing or was refused.')
  if (status === 404)
    return createConfigError(`search.embedder: nothing at ${url.pathname}, or no such search.embedderOptions.model.`)
  if (status === 413) return createConfigError('search.embedderOptions.batchSize is too large for the server.')
  if (status === 429 || status >= 500)
    return { error: new Error(message), waitMs: parseRetryAfter(retryAfter, Date.now()) ?? 0 }
  if (status >= 300 && status < 400)
    return createConfigError('search.embedder: the address redirects, which is not followed.')
  return createConfigError(
    'search.embedder: the server refuses the request; see search.embedderOptions.model and dims.',
  )
}

/** @throws PegboardError E_UPSTREAM_PROTOCOL if there is not exactly one vector per text, all of the same length */
function vectorsOf(body: string, count: number, label: string): Float32Array[] {
  const createFormatError = (what: string): PegboardError =>
    new PegboardError('E_UPSTREAM_PROTOCOL', `${label} does not answer in the format of /v1/embeddings: ${what}.`)
  const parsed = tryParseJson(body)
  const data = asRecord(parsed)['data']
  if (!Array.isArray(data)) throw createFormatError('no "data"')
  if (data.length !== count) throw createFormatError(`${data.length} vectors for ${count} texts`)
  const vectors = new Array<Float32Array | undefined>(count).fill(undefined)
  data.forEach((item: unknown, position) => {
    const { index = position, embedding } = asRecord(item)
    if (!Array.isArray(embedding) || embedding.length === 0)
      throw createFormatError('a vector is not a list of numbers')
    if (typeof index !== 'number' || !(index in vectors) || vectors[index])
      throw createFormatError('two vectors with one index')
    vectors[index] = Float32Array.from(embedding as number[])
  })
  const [first] = vectors
  if (vectors.some((vector) => vector!.length !== first!.length)) throw createFormatError('vectors of several lengths')
  return vectors as Float32Array[]
}
