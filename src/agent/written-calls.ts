import { isRecord } from '../core/is-record.ts'
import { afterSpace, type Budget, type ParsedJson, readJson } from './loose-json.ts'

/** A call as a model wrote it, with the name unchanged. */
export interface ToolCall {
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/** The calls that one strategy found, and their range in the text. */
export interface FoundCalls {
  readonly calls: readonly ToolCall[]
  readonly start: number
  readonly end: number
  /** The part of the range that is kept as text; default none. */
  readonly rest?: string
}

const NAME = /^[\w.:/-]{1,128}$/
const ARGUMENTS = ['arguments', 'parameters', 'params'] as const

/**
 * Reads calls from a value: `{name, arguments | parameters | params}`, `{function: {…}}`, `{tool_calls: […]}`, or a
 * list of these.
 * @param marked true if the text marks it as a call, so that arguments may be missing
 */
export function callsIn(value: unknown, marked: boolean): readonly ToolCall[] {
  if (Array.isArray(value)) return value.flatMap((one) => callsIn(one, marked))
  if (!isRecord(value)) return []
  if (Array.isArray(value['tool_calls'])) return value['tool_calls'].flatMap((one) => callsIn(one, true))
  const { function: inner } = value
  if (isRecord(inner)) return callsIn(inner, true)
  const name = typeof inner === 'string' ? inner : value['name']
  if (typeof name !== 'string' || !NAME.test(name)) return []
  const key = [...ARGUMENTS, ...(value['type'] === 'tool_use' ? ['input'] : [])].find((one) =>
    Object.hasOwn(value, one),
  )
  if (key === undefined) return marked ? [{ name, arguments: {} }] : []
  const args = argumentsOf(value[key])
  return args ? [{ name, arguments: args }] : []
}

/** Arguments as an object, or as JSON of an object; undefined for anything else. */
export function argumentsOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (isRecord(value)) return value
  if (value === null || (typeof value === 'string' && value.trim() === '')) return {}
  if (typeof value !== 'string') return undefined
  const read = wholeJson(value)
  return isRecord(read?.value) ? read.value : undefined
}

/** The value of a text that is JSON and nothing else. */
export function wholeJson(text: string): ParsedJson | undefined {
  const read = readJson(text, afterSpace(text, 0))
  return read && afterSpace(text, read.end) === text.length ? read : undefined
}

const FENCE = /```[\w-]{0,20}/g

export function findFenced(text: string, budget: Budget): FoundCalls[] {
  const found: FoundCalls[] = []
  for (const { index, 0: fence } of text.matchAll(FENCE)) {
    const at = afterSpace(text, index + fence.length)
    if (index < (found.at(-1)?.end ?? 0) || !opensJson(text, at)) continue
    const read = readJson(text, at, budget)
    const calls = read ? callsIn(read.value, false) : []
    const close = read ? afterSpace(text, read.end) : 0
    if (calls.length > 0 && text.startsWith('```', close)) found.push({ calls, start: index, end: close + 3 })
  }
  return found
}

/** A text that is one call. */
export function parseBareCall(text: string): FoundCalls[] {
  const read = wholeJson(text)
  const calls = read ? callsIn(read.value, false) : []
  return calls.length > 0 ? [{ calls, start: 0, end: text.length }] : []
}

/** Calls within prose. Each object is read to its end; nested objects are skipped. */
export const inProse = (text: string, budget: Budget): FoundCalls[] =>
  objectsIn(text, budget).flatMap(({ value, start, end }) => {
    const calls = callsIn(value, false)
    return calls.length > 0 ? [{ calls, start, end }] : []
  })

/** The outermost objects and lists of objects in a text. */
export function objectsIn(text: string, budget: Budget): (ParsedJson & { readonly start: number })[] {
  const found: (ParsedJson & { readonly start: number })[] = []
  let end = 0
  for (const { index } of text.matchAll(/[{[]/g)) {
    if (index < end || !opensJson(text, index)) continue
    const read = readJson(text, index, budget)
    if (!read) continue
    found.push({ ...read, start: index })
    end = read.end
  }
  return found
}

const opensJson = (text: string, at: number): boolean =>
  text[at] === '{' || (text[at] === '[' && text[afterSpace(text, at + 1)] === '{')
