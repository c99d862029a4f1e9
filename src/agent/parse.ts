import { isRecord } from '../core/record.ts'
import type { JsonSchema } from '../core/schema.ts'
import { bare, callsIn, type Found, fenced, inProse, objectsIn, type ToolCall } from './calls.ts'
import type { Budget } from './loose-json.ts'
import { functions, invokes, markers, type SchemaOf, tagged } from './markup.ts'

export interface ParsedText {
  /** In the order in which they were written. */
  readonly calls: readonly ToolCall[]
  /** What the model said beside them, without markup. */
  readonly text: string
}

export interface ParseOptions {
  /**
   * Tools as listed. Only needed to tell `42` from `"42"` in markup that has no quotes; names of others are calls, too.
   */
  readonly tools?: readonly { readonly name: string; readonly inputSchema: JsonSchema }[]
}

type Strategy = (text: string, budget: Budget, schemaOf: SchemaOf) => readonly Found[]

/** How models write calls, from the unmistakable to the likely. The first that finds any is believed. */
const STRATEGIES: readonly Strategy[] = [invokes, markers, tagged, functions, fenced, bare, inProse]

/**
 * The tool calls in what a model wrote, and the rest. The time it takes grows with the length of the text, whatever that
 * is; a text that was made to be costly may have calls left in it.
 */
export function parseToolCalls(text: string, options: ParseOptions = {}): ParsedText {
  const { tools = [] } = options
  const schemas = new Map(tools.map(({ name, inputSchema }) => [name, inputSchema]))
  const schemaOf: SchemaOf = (name) => schemas.get(name)
  const found = [find, straightened, failedGenerations].reduce<readonly Found[]>(
    (before, next) => (before.length > 0 ? before : next(text, schemaOf)),
    [],
  )
  return { calls: found.flatMap(({ calls }) => calls), text: without(text, found) }
}

function find(text: string, schemaOf: SchemaOf): readonly Found[] {
  const each = STRATEGIES.map((strategy) => strategy(text, budgetFor(text), schemaOf))
  const outer = outermost([...each.flat(), ...repeated(text)])
  return each.map((found) => found.filter((one) => outer.has(one))).find((found) => found.length > 0) ?? []
}

const RESULT = /<(tool_result|tool_response|function_results)\b/g

/** Results that a model repeats. What looks like a call in one was written by whoever wrote the result. */
function repeated(text: string): readonly Found[] {
  const found: Found[] = []
  const unclosed = new Set<string>()
  for (const { index, 1: tag = '' } of text.matchAll(RESULT)) {
    if (index < (found.at(-1)?.end ?? 0) || unclosed.has(tag)) continue
    const close = text.indexOf(`</${tag}`, index)
    if (close < 0) unclosed.add(tag)
    else found.push({ calls: [], start: index, end: close })
  }
  return found
}

/** What the model wrote itself, as far as that can be told. */
export function withoutRepeated(text: string): string {
  let at = 0
  const own = repeated(text).map(({ start, end }) => {
    const part = text.slice(at, start)
    at = end
    return part
  })
  return [...own, text.slice(at)].join('')
}

const budgetFor = (text: string): Budget => ({ left: 4 * text.length + 65_536 })

/** What looks like a call inside an argument of another one is text that somebody else may have written. */
function outermost(all: readonly Found[]): ReadonlySet<Found> {
  const inOrder = all.toSorted((a, b) => a.start - b.start || b.end - a.end)
  const kept = new Set<Found>()
  let last: Found | undefined
  for (const one of inOrder) {
    const isInside = last !== undefined && one.end <= last.end && (one.start !== last.start || one.end !== last.end)
    if (isInside) continue
    kept.add(one)
    if (last === undefined || one.end > last.end) last = one
  }
  return kept
}

/** Quotes that a keyboard or a model made pretty, as JSON has them. One character for one, so that places stay. */
function straightened(text: string, schemaOf: SchemaOf): readonly Found[] {
  const straight = text.replaceAll(/[“”„‟″]/g, '"').replaceAll(/[‘’‚‛′]/g, "'")
  return straight === text ? [] : find(straight, schemaOf)
}

/** What Groq answers instead of a call that it could not read: the text of the model lies in its error. */
function failedGenerations(text: string, schemaOf: SchemaOf): readonly Found[] {
  if (!text.includes('failed_generation')) return []
  const answers = objectsIn(text, budgetFor(text)).map(({ value, start, end }): Found => {
    if (!isRecord(value)) return { calls: [], start, end }
    const { failed_generation: failed } = isRecord(value['error']) ? value['error'] : value
    if (typeof failed !== 'string') return { calls: callsIn(failed, true), start, end }
    const direct = find(failed, schemaOf)
    const found = direct.length > 0 ? direct : straightened(failed, schemaOf)
    return { calls: found.flatMap(({ calls }) => calls), start, end, rest: without(failed, found) }
  })
  return answers.filter(({ calls }) => calls.length > 0)
}

/** The text without what was found, and without what is left of markup. */
function without(text: string, found: readonly Found[]): string {
  const pieces: string[] = []
  let at = 0
  for (const { start, end, rest = '' } of found) {
    // The fence around a call goes with it.
    pieces.push(
      cleaned(text.slice(at, start))
        .replace(/`{3}\w{0,10}$/, '')
        .trim(),
      rest,
    )
    at = end
  }
  pieces.push(cleaned(text.slice(at)))
  return pieces.filter((piece) => piece !== '').join('\n')
}

const cleaned = (piece: string): string => withoutUnclosed(piece.replaceAll(LEFT_OVER, '')).trim()

// What stands around calls, and what some models end a turn with.
const LEFT_OVER =
  /<\/?(?:antml:)?function_calls>|<[｜|]tool[▁_ ](?:calls[▁_ ](?:begin|end)|call[▁_ ]end)[｜|]>|<\|(?:python_tag|eom_id|eot_id|im_end)\|>|\[TOOL_CALLS\]|<\/?tool_calls>/g
const OPENERS = /`{0,3}[<{]tool_call[>}]`{0,3}|<(?:antml:)?invoke\b|<function=|<[｜|]tool[▁_ ]call[▁_ ]begin[｜|]>/g
const CLOSERS = /`{0,3}[<{]\/tool_call[>}]`{0,3}|<\/(?:antml:)?invoke>|<\/function>|<[｜|]tool[▁_ ]call[▁_ ]end[｜|]>/g

/** A call that the model did not finish is not for people, nor is what it had got to. */
function withoutUnclosed(text: string): string {
  const lastCloser = [...text.matchAll(CLOSERS)].at(-1)?.index ?? -1
  for (const { index, 0: opener } of text.matchAll(OPENERS)) {
    if (index < lastCloser) continue
    const rest = text.slice(index + opener.length, index + opener.length + 20).trimStart()
    const begun = rest === '' || /^[`{[]/.test(rest) || !/tool_call[>}]/.test(opener)
    return begun ? text.slice(0, index) : withoutTags(text, index)
  }
  // A closer alone belongs to nothing, or to a call that was found.
  return lastCloser >= 0 && !OPENERS_ONCE.test(text) ? text.replaceAll(CLOSERS, '') : text
}

const OPENERS_ONCE = new RegExp(OPENERS.source)
/** Words about a tag stay; the tag does not. */
const withoutTags = (text: string, from: number): string =>
  text.slice(0, from) + text.slice(from).replaceAll(OPENERS, '')
