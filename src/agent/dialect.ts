import { isRecord } from '../core/record.ts'
import type { ListedTool } from '../view/listing.ts'
import type { ToolAnswer } from './answer.ts'
import { argumentsOf, wholeJson } from './calls.ts'
import { type ChatMessage, contentOf } from './chat.ts'
import { parseToolCalls, withoutRepeated } from './parse.ts'
import { serializeTools } from './serialize.ts'

/** A call that a model wants, or why it cannot be told what it wants. */
export interface Wish {
  readonly id: string
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** The call cannot be read: what the model is told instead of a result. */
  readonly problem?: string
}

export interface Turn {
  readonly wishes: readonly Wish[]
  /** What it said beside them. */
  readonly text: string
  /** How the results go back. */
  answer(answers: readonly ToolAnswer[]): readonly ChatMessage[]
}

/** How a model is told of tools and how it asks for them. */
export interface Dialect {
  /** What of the tools goes along with a request. */
  request(tools: readonly ListedTool[]): Readonly<Record<string, unknown>>
  read(message: ChatMessage, tools: readonly ListedTool[]): Turn
}

/** Through the tool calls of the provider. @param alsoText calls of known tools that were written down count, too */
export const nativeDialect = (alsoText: boolean): Dialect => ({
  request: (tools) => (tools.length === 0 ? {} : { tools: serializeTools(tools, 'openai') }),
  read(message, tools) {
    const { tool_calls: calls } = message
    const wishes = Array.isArray(calls) ? calls.filter(isRecord).map(wishOf) : []
    const text = contentOf(message)
    if (wishes.length === 0 && alsoText) {
      const names = new Set(tools.map(({ name }) => name))
      const turn = writtenTurn(text, tools)
      if (turn.wishes.some(({ name }) => names.has(name))) return turn
    }
    return {
      wishes,
      text,
      answer: (answers) =>
        answers.map(({ text: content }, at) => ({ role: 'tool', tool_call_id: wishes[at]?.id ?? '', content })),
    }
  },
})

/** Calls are text, and so are results. */
export const textDialect: Dialect = {
  request: () => ({}),
  read: (message, tools) => writtenTurn(contentOf(message), tools),
}

/** The calls in what a model wrote. */
export function writtenTurn(content: string, tools: readonly ListedTool[]): Turn {
  const { calls, text } = parseToolCalls(content, { tools })
  const wishes = calls.map((call, at): Wish => ({ id: `text_${at}`, ...call }))
  if (wishes.length === 0 && /[<{]tool_call[>}]\s*[{[]/.test(withoutRepeated(content)))
    wishes.push({ id: 'text_0', name: 'tool_call', arguments: {}, problem: unreadable('it is not whole, or not JSON') })
  return {
    wishes,
    text,
    answer: (answers) => [
      {
        role: 'user',
        content: answers
          .map((answer, at) => `<tool_result name="${wishes[at]?.name}">\n${closedOnce(answer.text)}\n</tool_result>`)
          .join('\n'),
      },
    ],
  }
}

/** A result must not end itself and go on as somebody else. */
const closedOnce = (text: string): string => text.replaceAll(/<(\s*)\/(?=\s*tool_result)/gi, '<$1\\/')

const unreadable = (why: string): string => `E_VALIDATION: The call cannot be read: ${why}. Write it again.`

function wishOf(call: Readonly<Record<string, unknown>>, at: number): Wish {
  const inner = isRecord(call['function']) ? call['function'] : {}
  const id = typeof call['id'] === 'string' && call['id'] !== '' ? call['id'] : `call_${at}`
  const name = typeof inner['name'] === 'string' ? inner['name'] : ''
  const given = inner['arguments'] ?? {}
  if (name === '') return { id, name, arguments: {}, problem: unreadable('it names no tool') }
  const args = argumentsOf(typeof given === 'string' ? (wholeJson(given)?.value ?? given) : given)
  return args
    ? { id, name, arguments: args }
    : { id, name, arguments: {}, problem: unreadable('its arguments are not JSON') }
}
