import { isRecord } from '../core/is-record.ts'
import type { JsonSchema } from '../core/schema.ts'
import { afterSpace, type Budget, type ParsedJson, readJson } from './loose-json.ts'
import { callsIn, type FoundCalls, type ToolCall, wholeJson } from './written-calls.ts'

/** Returns the schema of a tool, if known; it tells which parameters are strings. */
export type SchemaOf = (name: string) => JsonSchema | undefined

/** Finds the next occurrence of a needle. Positions must increase, so that all calls together scan the text once. */
function createFinder(text: string, needle: string): (from: number) => number {
  let at = -2
  return (from) => {
    if (at !== -1 && at < from) at = text.indexOf(needle, from)
    return at
  }
}

/** The end of a match at `at`, or `at` if there is none. */
function skip(text: string, at: number, expression: RegExp): number {
  expression.lastIndex = at
  return at + (expression.exec(text)?.[0].length ?? 0)
}

const INVOKE = /<(?:antml:)?invoke\s{1,20}name\s{0,20}=\s{0,20}["']([^"'<>]{1,128})["']\s{0,20}>/g
const PARAMETER = /<(?:antml:)?parameter\s{1,20}name\s{0,20}=\s{0,20}["']([^"'<>]{1,128})["'][^<>]{0,80}>/y
const END_INVOKE = /<\/(?:antml:)?invoke>/y

/** `<invoke name="…">` with a `<parameter name="…">` per argument: Anthropic's format. */
export const findInvokes = (text: string, _budget: Budget, schemaOf: SchemaOf): FoundCalls[] =>
  findElements(text, INVOKE, PARAMETER, END_INVOKE, schemaOf)

const FUNCTION = /<function=([\w.:/-]{1,128})>?/g
const FUNCTION_PARAMETER = /<parameter=([^<>\s]{1,128})>/y
const END_FUNCTION = /<\/?function>/y

/** `<function=name>{…}</function>`, or with a `<parameter=…>` per argument. */
export function findFunctions(text: string, budget: Budget, schemaOf: SchemaOf): FoundCalls[] {
  const found = findElements(text, FUNCTION, FUNCTION_PARAMETER, END_FUNCTION, schemaOf)
  for (const { index, 0: opener, 1: name = '' } of text.matchAll(FUNCTION)) {
    const read = readAfter(text, index + opener.length, budget)
    if (!read || !isRecord(read.value)) continue
    const end = skip(text, afterSpace(text, read.end), END_FUNCTION)
    found.push({ calls: [{ name, arguments: read.value }], start: index, end })
  }
  return removeNested(found)
}

/** Calls with one element per argument. An unclosed call is ignored, because arguments may be missing. */
function findElements(
  text: string,
  opener: RegExp,
  parameter: RegExp,
  closer: RegExp,
  schemaOf: SchemaOf,
): FoundCalls[] {
  const found: FoundCalls[] = []
  const ends = ['', 'antml:'].map((prefix) => ({
    needle: `</${prefix}parameter>`,
    next: createFinder(text, `</${prefix}parameter>`),
  }))
  let seen = 0
  for (const { index, 0: tag, 1: name = '' } of text.matchAll(opener)) {
    if (index < seen) continue
    const properties = schemaOf(name)?.['properties']
    const entries: [string, unknown][] = []
    let at = afterSpace(text, index + tag.length)
    for (;;) {
      parameter.lastIndex = at
      const part = parameter.exec(text)
      if (!part) break
      const from = at + part[0].length
      const [close] = ends
        .map(({ needle, next }) => ({ at: next(from), length: needle.length }))
        .filter((one) => one.at >= 0)
        .sort((a, b) => a.at - b.at)
      if (!close) return found
      const key = part[1] ?? ''
      const schema = isRecord(properties) ? properties[key] : undefined
      entries.push([key, parseArgument(text.slice(from, close.at), isRecord(schema) && schema['type'] === 'string')])
      at = afterSpace(text, close.at + close.length)
    }
    const end = skip(text, at, closer)
    seen = end
    if (end > at) found.push({ calls: [{ name, arguments: Object.fromEntries(entries) }], start: index, end })
  }
  return found
}

/** Converts an argument's text to a value. */
function parseArgument(raw: string, isText: boolean): unknown {
  // A tag on its own line is only layout.
  const text = raw.replace(/^\n/, '').replace(/\n$/, '')
  if (isText) return text
  const trimmed = text.trim()
  if (/^(?:true|false|null)$/.test(trimmed)) return JSON.parse(trimmed)
  // Keeps `007` and numbers with too many digits as text.
  if (/^-?\d/.test(trimmed) && String(Number(trimmed)) === trimmed) return Number(trimmed)
  if (!/^[{[]/.test(trimmed)) return text
  const read = wholeJson(trimmed)
  return read ? read.value : text
}

const BEGIN = /<[｜|]tool[▁_ ]call[▁_ ]begin[｜|]>/g
const SEPARATOR = /<[｜|]tool[▁_ ]sep[｜|]>/g
const END = /<[｜|]tool[▁_ ]call[▁_ ]end[｜|]>/y
const HEAD = 200

/** DeepSeek's markers: the name, or `function` and the name, before the arguments. */
export function findMarkers(text: string, budget: Budget): FoundCalls[] {
  const found: FoundCalls[] = []
  for (const { index, 0: begin } of text.matchAll(BEGIN)) {
    const from = index + begin.length
    SEPARATOR.lastIndex = 0
    const head = text.slice(from, from + HEAD)
    const separator = SEPARATOR.exec(head)
    if (!separator) continue
    const after = from + separator.index + separator[0].length
    const named = text[afterSpace(text, after)] !== '{'
    const line = /^[^\n`{]{1,128}/.exec(text.slice(after, after + HEAD))?.[0] ?? ''
    const name = (named ? line : head.slice(0, separator.index)).trim()
    const read = readAfter(text, named ? after + line.length : after, budget)
    if (name === '' || !read || !isRecord(read.value)) continue
    found.push({
      calls: [{ name, arguments: read.value }],
      start: index,
      end: skip(text, afterSpace(text, skip(text, afterSpace(text, read.end), TICKS)), END),
    })
  }
  return found
}

// The tag in angle or curly brackets, optionally in back-ticks, or the word alone in back-ticks.
const OPEN = /`{0,3}[<{]tool_calls?[>}]`{0,3}|`{1,3}tool_calls?`{0,3}/g
const CLOSE = /`{0,3}[<{]\/tool_calls?[>}]`{0,3}|`{1,3}/y
const TICKS = /`{1,3}/y
const TICKS_AND_WORD = /`{3}[a-z]{0,10}/y

/**
 * `<tool_call>{"name": …, "arguments": …}</tool_call>`. The JSON value determines the end, whatever its strings
 * contain.
 */
export function findTagged(text: string, budget: Budget): FoundCalls[] {
  const found: FoundCalls[] = []
  for (const { index, 0: opener } of text.matchAll(OPEN)) {
    if (index < (found.at(-1)?.end ?? 0)) continue
    const calls: ToolCall[] = []
    let end = index + opener.length
    for (let read = readAfter(text, end, budget); read; read = readAfter(text, end, budget)) {
      calls.push(...callsIn(read.value, true))
      end = read.end
    }
    if (calls.length === 0) continue
    const close = afterSpace(text, end)
    const closed = skip(text, close, CLOSE)
    found.push({ calls, start: index, end: closed > close ? skip(text, afterSpace(text, closed), CLOSE) : end })
  }
  return found
}

/** The next object or list, optionally in a code fence. */
function readAfter(text: string, at: number, budget: Budget): ParsedJson | undefined {
  const from = afterSpace(text, skip(text, afterSpace(text, at), TICKS_AND_WORD))
  return text[from] === '{' || text[from] === '[' ? readJson(text, from, budget) : undefined
}

/** Sorted by position, without matches inside other matches. */
function removeNested(found: readonly FoundCalls[]): FoundCalls[] {
  const outermost: FoundCalls[] = []
  for (const one of found.toSorted((a, b) => a.start - b.start))
    if (one.start >= (outermost.at(-1)?.end ?? 0)) outermost.push(one)
  return outermost
}
