import { PegboardError } from '../core/errors.ts'
import type { CompletionRequest, CompletionResult } from '../core/service-types.ts'

export const MAX_TOKENS = 1_024
const JSON_ONLY = 'Answer with one JSON value and nothing else.'

/** The system prompt, with a request for JSON if wanted. */
export function systemOf({ system, json }: CompletionRequest): string | undefined {
  if (!json) return system
  return system === undefined || system === '' ? JSON_ONLY : `${system}\n\n${JSON_ONLY}`
}

/** @throws PegboardError E_VALIDATION */
export function checkCompletion(request: CompletionRequest): void {
  if (typeof request?.user !== 'string' || request.user.trim() === '')
    throw new PegboardError('E_VALIDATION', 'llm.complete needs user, a text for the model.')
}

/** @throws PegboardError E_TOOL_FAILED if JSON was wanted and the answer has none */
export function toCompleted(text: string, model: string, { json }: CompletionRequest): CompletionResult {
  if (!json) return { text, model }
  const bare = text
    .trim()
    .replace(/^```(?:json)?\s*\n?/i, '')
    .replace(/\n?```$/, '')
  try {
    return { text, json: JSON.parse(bare), model }
  } catch (error) {
    throw new PegboardError('E_TOOL_FAILED', 'The language model did not answer with JSON.', {
      hint: 'Try again, or ask it for less.',
      cause: error,
    })
  }
}
