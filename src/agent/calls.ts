import { isRecord } from '../core/record.ts'
import { afterSpace, type Budget, type Read, readJson } from './loose-json.ts'

/** A call as a model wrote it. The name is whatever it wrote. */
export interface ToolCall {
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/** What one strategy found, and which part of the text it was. */
export interface Found {
  readonly calls: readonly ToolCall[]
  readonly start: number
  readonly end: number
  /** What stays of that part; default nothing. */
  readonly rest?: string
}

const NAME = /^[\w.:/-]{1,128}$/
const ARGUMENTS = ['arguments', 'parameters', 'params'] as const

/**
 * The calls that a value is: `{name, arguments | parameters | params}`, `{function: {…}}`, `{tool_calls: […]}`, or a list
 * of these.
 * @param marked the text says that it is a call, so that one without arguments is one, too
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

/** Arguments as an object, or as the JSON of one; undefined when they are anything else. */
export function argumentsOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (isRecord(value)) return value
  if (value === null || (typeof value === 'string' && value.trim() === '')) return {}
  if (typeof value !== 'string') return undefined
  const read = wholeJson(value)
  return isRecord(read?.value) ? read.value : undefined
}

/** The value that a text is, with nothing around it. */
export function wholeJson(text: string): Read | undefined {
  const read = readJson(text, afterSpace(text, 0))
  return read && afterSpace(text, read.end) === text.length ? read : undefined
}

const FENCE = /```[\w-]{0,20}/g

/** Calls in fenced blocks. */
export function fenced(text: string, budget: Budget): Found[] {
  const found: Found[] = []
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

/** The whole text is a call. */
export function bare(text: string): Found[] {
  const read = wholeJson(text)
  const calls = read ? callsIn(read.value, false) : []
  return calls.length > 0 ? [{ calls, start: 0, end: text.length }] : []
}

/** Calls among other words: each object is read to its end, and one inside another is not looked at. */
export const inProse = (text: string, budget: Budget): Found[] =>
  objectsIn(text, budget).flatMap(({ value, start, end }) => {
    const calls = callsIn(value, false)
    return calls.length > 0 ? [{ calls, start, end }] : []
  })

/** Objects and lists of objects in a text, outermost ones only. */
export function objectsIn(text: string, budget: Budget): (Read & { readonly start: number })[] {
  const found: (Read & { readonly start: number })[] = []
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
