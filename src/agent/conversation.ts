import { PegboardError } from '../core/errors.ts'
import { asRecord } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { createToolLoop, type RoundLimits } from '../core/tool-loop.ts'
import {
  type ChatMessage,
  chat,
  conversationCancelled,
  createRejection,
  type Endpoint,
  parseBody,
} from './chat-client.ts'
import { createCitations } from './citations.ts'
import { type Dialect, type ModelTurn, nativeDialect, type RequestedCall, textDialect, writtenTurn } from './dialect.ts'
import type { ToolAnswer } from './tool-answer.ts'
import type { ToolUseMode } from './tool-use-mode.ts'
import type { Toolset, ToolsetPromptOptions } from './toolset.ts'

export type { ChatMessage, Endpoint } from './chat-client.ts'

export interface ConversationOptions {
  readonly toolset: Pick<Toolset, 'list' | 'call' | 'systemPrompt' | 'mode' | 'textTools'>
  readonly endpoint: Endpoint
  /** The user's request, or the messages so far without a system message. */
  readonly messages: string | readonly ChatMessage[]
  /** The agent's identity and style; the tools are described automatically. */
  readonly prompt?: Omit<ToolsetPromptOptions, 'mode' | 'provider'>
  /** Limits of tool call rounds. Default: 4, which a tool can extend. */
  readonly rounds?: RoundLimits
  readonly signal?: AbortSignal
  /** Called for each event as it happens. */
  readonly onEvent?: (event: ConversationEvent) => void
}

export type ConversationEvent =
  | { readonly type: 'round'; readonly round: number; readonly limit: number }
  | {
      readonly type: 'call'
      readonly id: string
      readonly name: string
      readonly arguments: RequestedCall['arguments']
    }
  | {
      readonly type: 'progress'
      readonly id: string
      readonly name: string
      readonly done: number
      readonly total?: number
      readonly message?: string
    }
  | {
      readonly type: 'result'
      readonly id: string
      readonly name: string
      readonly text: string
      readonly isError: boolean
    }

export interface ConversationResult {
  /** The answer, without tool call markup. */
  readonly text: string
  /** All messages, starting with the system message. */
  readonly messages: readonly ChatMessage[]
  readonly calls: readonly (Pick<RequestedCall, 'name' | 'arguments'> & ToolAnswer)[]
  /** Rounds of tool calls used, and the limit at the end. */
  readonly rounds: number
  readonly limit: number
  /** How the model was given tools. */
  readonly mode: ToolUseMode
  /** URLs that tools returned. */
  readonly urls: readonly string[]
}

const ANSWER_NOW = 'No more tools can be called. Answer now with what you have.'
/** Enough for any real turn, and few enough not to block other callers. */
const MOST_CALLS = 64
const ONE_MORE = `E_TOO_LARGE: One answer can have at most ${MOST_CALLS} calls. Repeat this call in the next answer.`
/** Statuses with which servers reject requests that contain tools. */
const REFUSALS: ReadonlySet<number> = new Set([400, 404, 405, 415, 422, 500, 501])

/**
 * Runs a model with tools until it answers. Calls of one round run in parallel; failures go back to the model as
 * text. When the rounds are used up, the model is asked once more without tools.
 * @throws PegboardError E_LOOP_LIMIT if it calls tools even then, E_CANCELLED, E_TIMEOUT, E_BACKEND_UNAVAILABLE
 */
export async function runConversation(options: ConversationOptions): Promise<ConversationResult> {
  const { toolset, endpoint, signal, onEvent } = options
  const { loop, begin } = createToolLoop(options.rounds)
  const { textTools } = toolset
  const cited = createCitations()
  const calls: (Pick<RequestedCall, 'name' | 'arguments'> & ToolAnswer)[] = []
  const history: ChatMessage[] =
    typeof options.messages === 'string' ? [{ role: 'user', content: options.messages }] : [...options.messages]
  let mode = toolset.mode(endpoint.provider)

  const dialect = (): Dialect => (mode === 'text' ? textDialect : nativeDialect(textTools === 'fallback'))
  const system = (): ChatMessage => ({ role: 'system', content: toolset.systemPrompt({ ...options.prompt, mode }) })

  async function ask(withTools: boolean): Promise<ModelTurn> {
    const tools = toolset.list()
    const messages = [system(), ...history, ...(withTools ? [] : [{ role: 'user', content: ANSWER_NOW }])]
    const answer = await chat(endpoint, { messages, ...(withTools ? dialect().request(tools) : {}) }, signal)
    if (answer.ok) {
      history.push(answer.message)
      return dialect().read(answer.message, tools)
    }
    const { status, text } = answer
    if (mode === 'native' && textTools === 'fallback' && REFUSALS.has(status) && /tool|function/i.test(text)) {
      mode = 'text'
      return ask(withTools)
    }
    const turn = textTools === 'off' || !text.includes('failed_generation') ? undefined : writtenTurn(text, tools)
    if (!turn || turn.wishes.length === 0) throw createRejection(status, text)
    history.push({ role: 'assistant', content: failedGeneration(text) })
    return turn
  }

  async function run(wish: RequestedCall): Promise<ToolAnswer> {
    const { id, name, problem } = wish
    onEvent?.({ type: 'call', id, name, arguments: wish.arguments })
    const answer: ToolAnswer =
      problem === undefined
        ? await toolset.call(name, wish.arguments, {
            loop,
            ...(signal && { signal }),
            onProgress: (done, total, message) =>
              onEvent?.({
                type: 'progress',
                id,
                name,
                done,
                ...omitUndefined({ total, message }),
              }),
          })
        : { text: problem, isError: true, files: [] }
    onEvent?.({ type: 'result', id, name, text: answer.text, isError: answer.isError })
    return answer
  }

  for (;;) {
    if (signal?.aborted) throw conversationCancelled()
    const mayCall = loop.used < loop.limit
    const turn = await ask(mayCall)
    if (turn.wishes.length === 0) {
      const urls = cited.all.map(({ url }) => url)
      const { used: rounds, limit } = loop
      return { text: turn.text, messages: [system(), ...history], calls, rounds, limit, mode, urls }
    }
    if (!mayCall || !begin())
      throw new PegboardError('E_LOOP_LIMIT', `tool-call loop did not converge after ${loop.used} rounds.`)
    onEvent?.({ type: 'round', round: loop.used, limit: loop.limit })
    const answers = await Promise.all(
      turn.wishes.map((wish, at) => run(at < MOST_CALLS ? wish : { problem: ONE_MORE, ...wish })),
    )
    if (signal?.aborted) throw conversationCancelled()
    for (const [at, answer] of answers.entries()) {
      const wish = turn.wishes[at]
      if (!wish) continue
      calls.push({ name: wish.name, arguments: wish.arguments, ...answer })
      cited.add(wish.name, answer.text)
    }
    history.push(...turn.answer(answers))
  }
}

/** Extracts the model's text from the error that contains it. */
function failedGeneration(text: string): string {
  const { error, failed_generation: failed } = parseBody(text)
  const inner = asRecord(error)['failed_generation'] ?? failed
  return typeof inner === 'string' ? inner : text
}
