import { asRecord, isRecord } from '../core/is-record.ts'
import type { ListedTool } from '../view/listed-tools.ts'
import { type ChatMessage, contentOf } from './chat-client.ts'
import { parseToolCalls, withoutRepeated } from './parse-tool-calls.ts'
import { serializeTools } from './serialize.ts'
import type { ToolAnswer } from './tool-answer.ts'
import { argumentsOf, wholeJson } from './written-calls.ts'

/** A tool call that a model requested, or why it cannot be read. */
export interface RequestedCall {
  readonly id: string
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** If the call cannot be read: the text the model gets instead of a result. */
  readonly problem?: string
}

export interface ModelTurn {
  readonly wishes: readonly RequestedCall[]
  /** The model's text besides the calls. */
  readonly text: string
  /** Creates the messages that return the results. */
  answer(answers: readonly ToolAnswer[]): readonly ChatMessage[]
}

/** How tools are described to a model, and how it requests calls. */
export interface Dialect {
  /** The part of a request that describes the tools. */
  request(tools: readonly ListedTool[]): Readonly<Record<string, unknown>>
  read(message: ChatMessage, tools: readonly ListedTool[]): ModelTurn
}

/** Uses the provider's native tool calls. @param alsoText also accept calls of known tools written as text */
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

/** Calls and results are plain text. */
export const textDialect: Dialect = {
  request: () => ({}),
  read: (message, tools) => writtenTurn(contentOf(message), tools),
}

export function writtenTurn(content: string, tools: readonly ListedTool[]): ModelTurn {
  const { calls, text } = parseToolCalls(content, { tools })
  const wishes = calls.map((call, at): RequestedCall => ({ id: `text_${at}`, ...call }))
  if (wishes.length === 0 && /[<{]tool_call[>}]\s*[{[]/.test(withoutRepeated(content)))
    wishes.push({
      id: 'text_0',
      name: 'tool_call',
      arguments: {},
      problem: createUnreadableText('it is incomplete, or not JSON'),
    })
  return {
    wishes,
    text,
    answer: (answers) => [
      {
        role: 'user',
        content: answers
          .map(
            (answer, at) => `<tool_result name="${wishes[at]?.name}">\n${escapeResultTag(answer.text)}\n</tool_result>`,
          )
          .join('\n'),
      },
    ],
  }
}

/** Prevents a result from closing its own tag and continuing as another speaker. */
const escapeResultTag = (text: string): string => text.replaceAll(/<(\s*)\/(?=\s*tool_result)/gi, '<$1\\/')

const createUnreadableText = (why: string): string => `E_VALIDATION: The call cannot be read: ${why}. Write it again.`

function wishOf(call: Readonly<Record<string, unknown>>, at: number): RequestedCall {
  const inner = asRecord(call['function'])
  const id = typeof call['id'] === 'string' && call['id'] !== '' ? call['id'] : `call_${at}`
  const name = typeof inner['name'] === 'string' ? inner['name'] : ''
  const given = inner['arguments'] ?? {}
  if (name === '') return { id, name, arguments: {}, problem: createUnreadableText('it names no tool') }
  const args = argumentsOf(typeof given === 'string' ? (wholeJson(given)?.value ?? given) : given)
  return args
    ? { id, name, arguments: args }
    : { id, name, arguments: {}, problem: createUnreadableText('its arguments are not JSON') }
}
