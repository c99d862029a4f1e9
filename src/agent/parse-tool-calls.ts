import { isRecord } from '../core/is-record.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { Budget } from './loose-json.ts'
import { findFunctions, findInvokes, findMarkers, findTagged, type SchemaOf } from './markup.ts'
import {
  callsIn,
  type FoundCalls,
  findFenced,
  inProse,
  objectsIn,
  parseBareCall,
  type ToolCall,
} from './written-calls.ts'

export interface ParsedText {
  /** In the order in which they were written. */
  readonly calls: readonly ToolCall[]
  /** The model's text without the calls and their markup. */
  readonly text: string
}

export interface ParseOptions {
  /**
   * The listed tools. Only used to tell `42` from `"42"` in markup without quotes; calls of other names are returned
   * too.
   */
  readonly tools?: readonly { readonly name: string; readonly inputSchema: JsonSchema }[]
}

type Strategy = (text: string, budget: Budget, schemaOf: SchemaOf) => readonly FoundCalls[]

/** Formats of tool calls, from unmistakable to likely. The first that matches is used. */
const STRATEGIES: readonly Strategy[] = [
  findInvokes,
  findMarkers,
  findTagged,
  findFunctions,
  findFenced,
  parseBareCall,
  inProse,
]

/**
 * Parses the tool calls in a model's text. The time grows linearly with the length of the text; in a text built to be
 * expensive, some calls may be missed.
 */
export function parseToolCalls(text: string, options: ParseOptions = {}): ParsedText {
  const { tools = [] } = options
  const schemas = new Map(tools.map(({ name, inputSchema }) => [name, inputSchema]))
  const schemaOf: SchemaOf = (name) => schemas.get(name)
  const found = [find, findWithPlainQuotes, failedGenerations].reduce<readonly FoundCalls[]>(
    (before, next) => (before.length > 0 ? before : next(text, schemaOf)),
    [],
  )
  return { calls: found.flatMap(({ calls }) => calls), text: removeCalls(text, found) }
}

function find(text: string, schemaOf: SchemaOf): readonly FoundCalls[] {
  const each = STRATEGIES.map((strategy) => strategy(text, budgetFor(text), schemaOf))
  const outer = findOutermost([...each.flat(), ...findRepeated(text)])
  return each.map((found) => found.filter((one) => outer.has(one))).find((found) => found.length > 0) ?? []
}

const RESULT = /<(tool_result|tool_response|function_results)\b/g

/** Results that the model repeats. Calls in them were written by the author of the result, so they do not count. */
function findRepeated(text: string): readonly FoundCalls[] {
  const found: FoundCalls[] = []
  const unclosed = new Set<string>()
  for (const { index, 1: tag = '' } of text.matchAll(RESULT)) {
    if (index < (found.at(-1)?.end ?? 0) || unclosed.has(tag)) continue
    const close = text.indexOf(`</${tag}`, index)
    if (close < 0) unclosed.add(tag)
    else found.push({ calls: [], start: index, end: close })
  }
  return found
}

/** The text that the model wrote itself, as far as that can be told. */
export function withoutRepeated(text: string): string {
  let at = 0
  const own = findRepeated(text).map(({ start, end }) => {
    const part = text.slice(at, start)
    at = end
    return part
  })
  return [...own, text.slice(at)].join('')
}

const budgetFor = (text: string): Budget => ({ left: 4 * text.length + 65_536 })

/** A call inside an argument of another call may come from someone else and does not count. */
function findOutermost(all: readonly FoundCalls[]): ReadonlySet<FoundCalls> {
  const inOrder = all.toSorted((a, b) => a.start - b.start || b.end - a.end)
  const outermost = new Set<FoundCalls>()
  let last: FoundCalls | undefined
  for (const one of inOrder) {
    const isInside = last !== undefined && one.end <= last.end && (one.start !== last.start || one.end !== last.end)
    if (isInside) continue
    outermost.add(one)
    if (last === undefined || one.end > last.end) last = one
  }
  return outermost
}

/** Replaces typographic quotes by plain ones. One character for one, so that positions stay valid. */
function findWithPlainQuotes(text: string, schemaOf: SchemaOf): readonly FoundCalls[] {
  const straight = text.replaceAll(/[“”„‟″]/g, '"').replaceAll(/[‘’‚‛′]/g, "'")
  return straight === text ? [] : find(straight, schemaOf)
}

/** Groq returns an error that contains the model's text when it cannot parse a call. */
function failedGenerations(text: string, schemaOf: SchemaOf): readonly FoundCalls[] {
  if (!text.includes('failed_generation')) return []
  const answers = objectsIn(text, budgetFor(text)).map(({ value, start, end }): FoundCalls => {
    if (!isRecord(value)) return { calls: [], start, end }
    const { failed_generation: failed } = isRecord(value['error']) ? value['error'] : value
    if (typeof failed !== 'string') return { calls: callsIn(failed, true), start, end }
    const direct = find(failed, schemaOf)
    const found = direct.length > 0 ? direct : findWithPlainQuotes(failed, schemaOf)
    return { calls: found.flatMap(({ calls }) => calls), start, end, rest: removeCalls(failed, found) }
  })
  return answers.filter(({ calls }) => calls.length > 0)
}

/** The text without the matches and their leftover markup. */
function removeCalls(text: string, found: readonly FoundCalls[]): string {
  const pieces: string[] = []
  let at = 0
  for (const { start, end, rest = '' } of found) {
    // Removes the code fence around a call too.
    pieces.push(
      removeMarkup(text.slice(at, start))
        .replace(/`{3}\w{0,10}$/, '')
        .trim(),
      rest,
    )
    at = end
  }
  pieces.push(removeMarkup(text.slice(at)))
  return pieces.filter((piece) => piece !== '').join('\n')
}

const removeMarkup = (piece: string): string => withoutUnclosed(piece.replaceAll(LEFT_OVER, '')).trim()

// Markup around calls, and tokens that some models end a turn with.
const LEFT_OVER =
  /<\/?(?:antml:)?function_calls>|<[｜|]tool[▁_ ](?:calls[▁_ ](?:begin|end)|call[▁_ ]end)[｜|]>|<\|(?:python_tag|eom_id|eot_id|im_end)\|>|\[TOOL_CALLS\]|<\/?tool_calls>/g
const OPENERS = /`{0,3}[<{]tool_call[>}]`{0,3}|<(?:antml:)?invoke\b|<function=|<[｜|]tool[▁_ ]call[▁_ ]begin[｜|]>/g
const CLOSERS = /`{0,3}[<{]\/tool_call[>}]`{0,3}|<\/(?:antml:)?invoke>|<\/function>|<[｜|]tool[▁_ ]call[▁_ ]end[｜|]>/g

/** Removes an unfinished call. */
function withoutUnclosed(text: string): string {
  const lastCloser = [...text.matchAll(CLOSERS)].at(-1)?.index ?? -1
  for (const { index, 0: opener } of text.matchAll(OPENERS)) {
    if (index < lastCloser) continue
    const rest = text.slice(index + opener.length, index + opener.length + 20).trimStart()
    const begun = rest === '' || /^[`{[]/.test(rest) || !/tool_call[>}]/.test(opener)
    return begun ? text.slice(0, index) : withoutTags(text, index)
  }
  // A closing tag without an opening one belongs to a call that was found.
  return lastCloser >= 0 && !OPENERS_ONCE.test(text) ? text.replaceAll(CLOSERS, '') : text
}

const OPENERS_ONCE = new RegExp(OPENERS.source)
/** Removes tags but keeps the text around them. */
const withoutTags = (text: string, from: number): string =>
  text.slice(0, from) + text.slice(from).replaceAll(OPENERS, '')
