import type { Stop } from '../core/ending.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/record.ts'
import { scrub } from '../core/scrub.ts'
import type { Llm } from '../core/services.ts'
import type { Relay } from '../core/tool.ts'
import { checkWish, completed, MAX_TOKENS, systemOf } from './llm.ts'

/** The model of the client, by MCP sampling: its person may see and change what is asked. */
export function samplingLlm(request: NonNullable<Relay['request']>, stop: Stop | undefined): Llm {
  return {
    source: 'sampling',
    async complete(wanted) {
      checkWish(wanted)
      const { user, temperature, maxTokens = MAX_TOKENS, model } = wanted
      const systemPrompt = systemOf(wanted)
      const params = {
        messages: [{ role: 'user', content: { type: 'text', text: user } }],
        maxTokens,
        ...(systemPrompt === undefined ? {} : { systemPrompt }),
        ...(temperature === undefined ? {} : { temperature }),
        ...(model === undefined ? {} : { modelPreferences: { hints: [{ name: model }] } }),
      }
      const answer = await request('sampling/createMessage', params, stop && signalOf(stop)).catch((error: unknown) => {
        if (isPegboardError(error)) throw error
        throw new PegboardError('E_BACKEND_UNAVAILABLE', `The client lent no model: ${scrub(messageOf(error))}`, {
          hint: 'Ask the person to allow it, or set services.llm.',
          retryable: false,
          cause: error,
        })
      })
      const { content, model: used } = isRecord(answer) ? answer : {}
      return completed(textOf(content), typeof used === 'string' ? used : '', wanted)
    },
  }
}

const signalOf = (stop: Stop): AbortSignal => ('signal' in stop ? stop.signal : stop)

/** One block, or a list of them. */
function textOf(content: unknown): string {
  const blocks = Array.isArray(content) ? content : [content]
  return blocks
    .flatMap((block) => (isRecord(block) && block['type'] === 'text' ? [String(block['text'] ?? '')] : []))
    .join('')
}
