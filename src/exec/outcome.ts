import type { SentFile } from '../core/context.ts'
import { PegboardError, sentences } from '../core/errors.ts'
import type { ContentBlock, ToolResult } from '../core/result.ts'

/** How a call ended, as it can be kept and told: what a model reads, and the same as data. */
export type Outcome =
  | { readonly success: true; readonly data: unknown; readonly warnings?: readonly string[] }
  | { readonly success: false; readonly error: string; readonly code: string }

/**
 * A result as data, and what is no text beside it: a module's value as it is, of a server its structured content, else its text.
 * @throws PegboardError E_INTERNAL for a value that JSON cannot say: it can be neither kept nor told
 */
export function outcomeOf(result: ToolResult): { readonly outcome: Outcome; readonly files: readonly SentFile[] } {
  if (result.kind === 'input_required')
    return {
      outcome: { success: false, code: 'E_CANNOT_ASK', error: 'E_CANNOT_ASK: It has a question; call it directly.' },
      files: [],
    }
  if (result.kind === 'value') {
    const { value, warnings, files } = result
    if (!isSayable(value)) throw new PegboardError('E_INTERNAL', 'The result cannot be sent as JSON.')
    return {
      outcome: { success: true, data: value ?? null, ...(warnings.length > 0 ? { warnings } : {}) },
      files,
    }
  }
  const { content = [], structuredContent, isError } = result.result
  const text = content.flatMap((block) => (block.type === 'text' ? [String(block['text'])] : [])).join('\n')
  if (isError === true)
    return {
      outcome: { success: false, code: 'E_TOOL_FAILED', error: text || 'The tool reported a failure.' },
      files: [],
    }
  const files = content.flatMap(fileOf)
  const rest = content.filter((block) => block.type !== 'text' && fileOf(block).length === 0)
  return {
    outcome: { success: true, data: structuredContent ?? (rest.length === 0 ? text : { text, content: rest }) },
    files,
  }
}

function isSayable(value: unknown): boolean {
  try {
    JSON.stringify(value)
    return true
  } catch {
    return false
  }
}

export const failureOf = (error: PegboardError): Outcome => ({
  success: false,
  code: error.code,
  error: `${error.code}: ${sentences(error.message, error.hint)}`,
})

const fileOf = (block: ContentBlock): readonly SentFile[] =>
  (block.type === 'image' || block.type === 'audio') && typeof block['data'] === 'string'
    ? [{ data: Buffer.from(block['data'], 'base64'), filename: block.type, mimetype: String(block['mimeType']) }]
    : []
