import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import { scrub } from '../core/scrub.ts'
import type { Llm } from '../core/service-types.ts'
import type { Relay } from '../core/tool.ts'
import { checkCompletion, MAX_TOKENS, systemOf, toCompleted } from './llm.ts'

/** The model of the client, through MCP sampling: its user may see and change the request. */
export function samplingLlm(request: NonNullable<Relay['request']>, signal: AbortSignal | undefined): Llm {
  return {
    source: 'sampling',
    async complete(completionRequest) {
      checkCompletion(completionRequest)
      const { user, temperature, maxTokens = MAX_TOKENS, model } = completionRequest
      const systemPrompt = systemOf(completionRequest)
      const params = {
        messages: [{ role: 'user', content: { type: 'text', text: user } }],
        maxTokens,
        ...(systemPrompt === undefined ? {} : { systemPrompt }),
        ...(temperature === undefined ? {} : { temperature }),
        ...(model === undefined ? {} : { modelPreferences: { hints: [{ name: model }] } }),
      }
      const answer = await request('sampling/createMessage', params, signal).catch((error: unknown) => {
        if (isPegboardError(error)) throw error
        // Without the cause: the call would be answered with the protocol error of the client.
        throw new PegboardError(
          'E_BACKEND_UNAVAILABLE',
          `The client did not provide a model: ${scrub(messageOf(error))}`,
          {
            hint: 'Ask the person to allow it, or set services.llm.',
            class: 'server_setup',
          },
        )
      })
      const { content, model: used } = asRecord(answer)
      return toCompleted(textOf(content), typeof used === 'string' ? used : '', completionRequest)
    },
  }
}

/** One content block, or a list of them. */
function textOf(content: unknown): string {
  const blocks = Array.isArray(content) ? content : [content]
  return blocks
    .flatMap((block) => (isRecord(block) && block['type'] === 'text' ? [String(block['text'] ?? '')] : []))
    .join('')
}
