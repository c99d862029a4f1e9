import { hash } from 'node:crypto'
import type { SentFile } from '../core/caller.ts'
import { joinSentences, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { ContentBlock, ToolResult } from '../core/tool-result.ts'

const QUESTION = 'The tool has a question for the user. Call the tool directly, so that the client can ask the user.'

/** The result of a call in a form that can be stored: its data, or its error. */
export type Outcome =
  | { readonly success: true; readonly data: unknown; readonly warnings?: readonly string[] }
  | FailedOutcome

export interface FailedOutcome {
  readonly success: false
  readonly error: string
  readonly code: string
}

/**
 * A result as data, with its files. A module's value is unchanged; a server's result is its structured content, or its
 * text.
 * @throws PegboardError E_INTERNAL for a value that JSON cannot express
 */
export function outcomeOf(result: ToolResult): { readonly outcome: Outcome; readonly files: readonly SentFile[] } {
  if (result.kind === 'input_required')
    return {
      outcome: { success: false, code: 'E_CANNOT_ASK', error: `E_CANNOT_ASK: ${QUESTION}` },
      files: [],
    }
  if (result.kind === 'value') {
    const { value, warnings, files } = result
    if (!isSerializable(value)) throw new PegboardError('E_INTERNAL', 'The result cannot be sent as JSON.')
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

function isSerializable(value: unknown): boolean {
  try {
    JSON.stringify(value)
    return true
  } catch {
    return false
  }
}

/** A result without the parts at dotted paths. */
export function withoutParts(outcome: Outcome, paths: readonly string[]): Outcome {
  if (!outcome.success) return outcome
  return { ...outcome, data: paths.reduce((data, path) => withoutPart(data, path.split('.')), outcome.data) }
}

function withoutPart(value: unknown, [key = '', ...path]: readonly string[]): unknown {
  if (!isRecord(value) || !Object.hasOwn(value, key)) return value
  const { [key]: part, ...rest } = value
  return path.length === 0 ? rest : { ...value, [key]: withoutPart(part, path) }
}

/** Shortens a long result, with a fingerprint to compare it by. */
export function shortenOutcome(outcome: Outcome): Outcome {
  if (!outcome.success) return outcome
  const text = JSON.stringify(outcome.data) ?? 'null'
  if (text.length <= MAX_KEPT_CHARS) return outcome
  return { ...outcome, data: `${text.slice(0, 1_000)}… (${text.length} characters, SHA-256 ${hash('sha256', text)})` }
}

const MAX_KEPT_CHARS = 16_384

export const failureOf = (error: PegboardError): Outcome => ({
  success: false,
  code: error.code,
  error: `${error.code}: ${joinSentences(error.message, error.hint)}`,
})

const fileOf = (block: ContentBlock): readonly SentFile[] =>
  (block.type === 'image' || block.type === 'audio') && typeof block['data'] === 'string'
    ? [{ data: Buffer.from(block['data'], 'base64'), filename: block.type, mimetype: String(block['mimeType']) }]
    : []
