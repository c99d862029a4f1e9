import type { Agent } from 'undici'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { asRecord } from '../core/is-record.ts'
import { postJson } from '../core/post-json.ts'
import { scrub } from '../core/scrub.ts'
import type { Llm } from '../core/service-types.ts'
import {
  addressKind,
  assertReachable,
  createGuardedAgent,
  isLoopback,
  type NetRules,
  publicOnly,
} from '../policy/network-rules.ts'
import { checkCompletion, MAX_TOKENS, systemOf, toCompleted } from './llm.ts'
import type { LlmSettings } from './services-options.ts'

const MAX_ANSWER_BYTES = 4 * 1024 * 1024

/** A language model with OpenAI's `POST /chat/completions`. Redirects are not followed. */
export interface Endpoint {
  for(stop: AbortSignal | undefined): Llm
  close(): Promise<void>
}

/** An address in the setting also allows others of its kind. A host name that resolves to a private one is refused. */
function rulesFor(url: URL): NetRules {
  const setting = 'services.llm.baseUrl'
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isLoopback(url)) return { allow: new Set(['public', 'loopback']), http: true, setting }
  const kind = addressKind(host)
  if (kind === 'private' || kind === 'link-local') return { allow: new Set(['public', kind]), http: true, setting }
  return publicOnly(setting)
}

export function createEndpoint({ baseUrl, model, apiKey, timeoutMs }: LlmSettings): Endpoint {
  const url = new URL(`${baseUrl.replace(/\/+$/, '')}/chat/completions`)
  const rules = rulesFor(url)
  let agent: Promise<Agent> | undefined

  const failed = (what: string, cause?: unknown): PegboardError =>
    new PegboardError('E_BACKEND_UNAVAILABLE', `The language model did not answer: ${what}.`, {
      hint: 'The setting services.llm configures the model.',
      cause,
    })
  const quote = (text: string): string => scrub(apiKey === undefined ? text : text.replaceAll(apiKey, '<key>'))

  async function post(body: object, stop: AbortSignal | undefined): Promise<unknown> {
    assertReachable(url, rules)
    agent ??= createGuardedAgent(rules)
    const dispatcher = await agent
    // The default export, because bundlers leave the named exports of a CommonJS package undefined.
    const { fetch } = (await import('undici')).default
    try {
      const { status, text } = await postJson({
        url,
        body,
        apiKey,
        timeoutMs,
        signal: stop,
        maxBytes: MAX_ANSWER_BYTES,
        redirect: 'manual',
        fetch: (to, init) => fetch(to, { ...init, dispatcher }),
      })
      if (status !== 200) throw failed(`status ${status}: ${quote(text.slice(0, 300))}`)
      return JSON.parse(text)
    } catch (error) {
      if (stop?.aborted) throw stop.reason
      if (isPegboardError(error) && error.code === 'E_TIMEOUT')
        throw failed(`it took longer than ${timeoutMs} ms`, error)
      if (isPegboardError(error)) throw error
      throw failed(quote(messageOf(error)), error)
    }
  }

  return {
    for: (stop) => ({
      source: 'endpoint',
      ...(model === undefined ? {} : { model }),
      async complete(completionRequest) {
        checkCompletion(completionRequest)
        const { user, temperature, maxTokens = MAX_TOKENS, json } = completionRequest
        const named = completionRequest.model ?? model
        if (named === undefined)
          throw new PegboardError('E_BACKEND_UNAVAILABLE', 'No language model is named.', {
            hint: 'Set services.llm.model.',
            class: 'server_setup',
          })
        const system = systemOf(completionRequest)
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
        const { choices, model: used } = asRecord(answer)
        const first: unknown = Array.isArray(choices) ? choices[0] : undefined
        const { content } = asRecord(asRecord(first)['message'])
        if (typeof content !== 'string') throw failed('its answer has no text')
        return toCompleted(content, typeof used === 'string' ? used : named, completionRequest)
      },
    }),
    close: async () => await (await agent)?.destroy(),
  }
}
