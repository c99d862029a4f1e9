import type { Agent } from 'undici'
import type { Stop } from '../core/ending.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { limited } from '../core/limit.ts'
import { isRecord } from '../core/record.ts'
import { scrub } from '../core/scrub.ts'
import type { Llm } from '../core/services.ts'
import {
  addressKind,
  assertReachable,
  createGuardedAgent,
  isLoopback,
  type NetRules,
  publicOnly,
} from '../policy/net.ts'
import { checkWish, completed, MAX_TOKENS, systemOf } from './llm.ts'
import type { LlmSettings } from './options.ts'

const MAX_ANSWER_BYTES = 4 * 1024 * 1024

/** A server that speaks `POST /chat/completions` as OpenAI defined it. Redirects are not followed. */
export interface Endpoint {
  for(stop: Stop | undefined): Llm
  close(): Promise<void>
}

/** Where the setting itself names a private address, that kind is meant; a name that leads to one is refused. */
function rulesFor(url: URL): NetRules {
  const setting = 'services.llm.baseUrl'
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isLoopback(url)) return { allow: new Set(['public', 'loopback']), http: true, setting }
  if (addressKind(host) === 'private') return { allow: new Set(['public', 'private']), http: true, setting }
  return publicOnly(setting)
}

export function createEndpoint({ baseUrl, model, apiKey, timeoutMs }: LlmSettings): Endpoint {
  const url = new URL(`${baseUrl.replace(/\/+$/, '')}/chat/completions`)
  const rules = rulesFor(url)
  let agent: Promise<Agent> | undefined

  const failed = (what: string, cause?: unknown): PegboardError =>
    new PegboardError('E_BACKEND_UNAVAILABLE', `The language model did not answer: ${what}.`, {
      hint: 'services.llm says which one it is.',
      ...(cause === undefined ? {} : { cause }),
    })
  const quote = (text: string): string => scrub(apiKey === undefined ? text : text.replaceAll(apiKey, '<key>'))

  async function post(body: object, stop: Stop | undefined): Promise<unknown> {
    assertReachable(url, rules)
    const limit = limited(stop, timeoutMs)
    try {
      agent ??= createGuardedAgent(rules)
      // The default export, because a bundler leaves the named ones of a CommonJS package undefined.
      const { request } = (await import('undici')).default
      const answer = await request(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json',
          ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        },
        body: JSON.stringify(body),
        signal: limit.signal,
        dispatcher: await agent,
      })
      const text = await readText(answer.body)
      if (answer.statusCode !== 200) throw failed(`status ${answer.statusCode}: ${quote(text.slice(0, 300))}`)
      return JSON.parse(text)
    } catch (error) {
      if (stop?.aborted) throw stop.reason
      if (isPegboardError(error)) throw error
      if (limit.late) throw failed(`it took longer than ${timeoutMs} ms`, error)
      const cause = (error as { cause?: unknown }).cause
      if (isPegboardError(cause)) throw cause
      throw failed(quote(messageOf(error)), error)
    } finally {
      limit.free()
    }
  }

  return {
    for: (stop) => ({
      source: 'endpoint',
      ...(model === undefined ? {} : { model }),
      async complete(wanted) {
        checkWish(wanted)
        const { user, temperature, maxTokens = MAX_TOKENS, json } = wanted
        const named = wanted.model ?? model
        if (named === undefined)
          throw new PegboardError('E_BACKEND_UNAVAILABLE', 'No language model is named.', {
            hint: 'Set services.llm.model.',
            retryable: false,
          })
        const system = systemOf(wanted)
        const answer = await post(
          {
            model: named,
            messages: [
              ...(system === undefined ? [] : [{ role: 'system', content: system }]),
              { role: 'user', content: user },
            ],
            max_tokens: maxTokens,
            ...(temperature === undefined ? {} : { temperature }),
            ...(json ? { response_format: { type: 'json_object' } } : {}),
          },
          stop,
        )
        const { choices, model: used } = isRecord(answer) ? answer : {}
        const first: unknown = Array.isArray(choices) ? choices[0] : undefined
        const message = isRecord(first) ? first['message'] : undefined
        const text = isRecord(message) ? message['content'] : undefined
        if (typeof text !== 'string') throw failed('its answer has no text')
        return completed(text, typeof used === 'string' ? used : named, wanted)
      },
    }),
    close: async () => await (await agent)?.destroy(),
  }
}

async function readText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of body) {
    bytes += part.length
    if (bytes > MAX_ANSWER_BYTES) throw new Error('its answer is too long')
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}
