import type { Caller } from '../core/caller.ts'
import { joinSentences, PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { findNearest } from '../core/tool-names.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'

export { OPEN_SCHEMA as ANY_ARGUMENTS } from '../view/listed-tools.ts'

export interface InputSchema extends Json {
  readonly properties: Json
}

export const inputSchema = (properties: Json, ...required: readonly string[]): InputSchema => ({
  type: 'object',
  properties,
  ...(required.length > 0 ? { required } : {}),
})

export const TEXT = { type: 'string' } as const

/** Hints about what a tool does. One that runs any tool has those of the most dangerous one. */
export const READS = { readOnlyHint: true, openWorldHint: false }
export const CHANGES = { readOnlyHint: false, destructiveHint: false, openWorldHint: false }
export const RUNS = { readOnlyHint: false, destructiveHint: true, openWorldHint: true }

/** Reads a required string of at most `max` characters. @throws PegboardError E_VALIDATION */
export function readText(input: Json, key: string, tool: string, max: number): string {
  const value = input[key]
  if (typeof value !== 'string' || value.trim() === '')
    throw createInputError(tool, `${key}: a non-empty string is required`)
  if (value.length > max) throw createInputError(tool, `${key}: at most ${max} characters (length ${value.length})`)
  return value
}

/**
 * Reads an optional integer within bounds. Accepts strings, because models often send numbers as strings.
 * @throws PegboardError E_VALIDATION
 */
export function readInteger(
  input: Json,
  key: string,
  tool: string,
  min: number,
  max: number,
  fallback: number,
): number {
  const raw = input[key]
  if (raw === undefined || raw === null) return fallback
  const value = typeof raw === 'string' && /^-?\d+$/.test(raw) ? Number(raw) : raw
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
    throw createInputError(tool, `${key}: a whole number from ${min} to ${max} is required`)
  return value
}

/**
 * How tools are described: `json`, or `ts` for declarations in TypeScript. The default is `ts` for callers that write scripts.
 * @throws PegboardError E_VALIDATION
 */
export function readFormat(input: Json, tool: string, host: MetaHost, caller: Caller): 'json' | 'ts' {
  const { format = host.exposure(caller).mode === 'code' ? 'ts' : 'json' } = input
  if (format !== 'json' && format !== 'ts') throw createInputError(tool, 'format: "json" or "ts" is required')
  return format
}

/** Rejects parameters that the tool does not have. @throws PegboardError E_VALIDATION */
export function checkKeys(input: Json, { name: tool, inputSchema: { properties }, otherKeys = [] }: MetaTool): void {
  if (otherKeys === 'any') return
  const keys = [...Object.keys(properties), ...otherKeys]
  for (const key of Object.keys(input)) {
    if (keys.includes(key)) continue
    const [near] = findNearest(key, keys)
    const hint = near ? `; did you mean "${near}"?` : `; it takes ${keys.length > 0 ? keys.join(', ') : 'none'}`
    throw createInputError(tool, `unknown parameter "${showBeginning(key)}"${hint}`)
  }
}

/** The first 80 characters of a text, enough to recognize it in an error. */
const showBeginning = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}…` : text)

export const createInputError = (tool: string, what: string): PegboardError =>
  new PegboardError('E_VALIDATION', joinSentences(`Invalid params for ${tool}: ${what}`, ''), {
    hint: `Correct it and call ${tool} again.`,
  })
