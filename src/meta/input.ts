import { PegboardError } from '../core/errors.ts'
import { nearest } from '../core/names.ts'

export { OPEN_SCHEMA as ANY_ARGUMENTS } from '../view/listing.ts'

type Input = Readonly<Record<string, unknown>>

/** Reads a required string of at most `max` characters. @throws PegboardError E_VALIDATION */
export function text(input: Input, key: string, tool: string, max: number): string {
  const value = input[key]
  if (typeof value !== 'string' || value.trim() === '') throw invalid(tool, `${key}: a non-empty string is required`)
  if (value.length > max) throw invalid(tool, `${key}: at most ${max} characters (length ${value.length})`)
  return value
}

/** Reads an optional whole number within bounds; models often send numbers as strings. @throws PegboardError E_VALIDATION */
export function whole(input: Input, key: string, tool: string, min: number, max: number, fallback: number): number {
  const raw = input[key]
  if (raw === undefined || raw === null) return fallback
  const value = typeof raw === 'string' && /^-?\d+$/.test(raw) ? Number(raw) : raw
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
    throw invalid(tool, `${key}: a whole number from ${min} to ${max} is required`)
  return value
}

/** Refuses keys the tool does not have. @throws PegboardError E_VALIDATION */
export function onlyKeys(input: Input, keys: readonly string[], tool: string): void {
  for (const key of Object.keys(input)) {
    if (keys.includes(key)) continue
    const [near] = nearest(key, keys)
    throw invalid(
      tool,
      `unknown parameter "${begun(key)}"${near ? `, did you mean "${near}"?` : `; it takes ${keys.length > 0 ? keys.join(', ') : 'none'}`}`,
    )
  }
}

/** What somebody wrote, as far as it has to be repeated to be known again. */
const begun = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}…` : text)

export const invalid = (tool: string, what: string): PegboardError =>
  new PegboardError('E_VALIDATION', `Invalid params for ${tool}: ${what}.`, {
    hint: `Correct it and call ${tool} again.`,
  })
