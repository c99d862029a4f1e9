import { PegboardError } from '../core/errors.ts'
import { createToolLoop, type RoundLimits } from '../core/loop.ts'
import type { ToolAnswer } from './answer.ts'
import { type ChatMessage, chat, conversationCancelled, type Endpoint, parsed, refused } from './chat.ts'
import { createCitations } from './citations.ts'
import { type Dialect, nativeDialect, type Turn, textDialect, type Wish, writtenTurn } from './dialect.ts'
import type { ToolUseMode } from './mode.ts'
import type { Toolset, ToolsetPromptOptions } from './toolset.ts'

export type { ChatMessage, Endpoint } from './chat.ts'

export interface ConversationOptions {
  readonly toolset: Pick<Toolset, 'list' | 'call' | 'systemPrompt' | 'mode' | 'textTools'>
  readonly endpoint: Endpoint
  /** What the user wants, or the messages so far, without a system message. */
  readonly messages: string | readonly ChatMessage[]
  /** Who the agent is; the tools are told of by themselves. */
  readonly prompt?: Omit<ToolsetPromptOptions, 'mode' | 'provider'>
  /** Rounds of tool calls; by default 4, which a tool can extend. */
  readonly rounds?: RoundLimits
  readonly signal?: AbortSignal
  /** Told of everything as it happens. */
  readonly onEvent?: (event: ConversationEvent) => void
}

export type ConversationEvent =
  | { readonly type: 'round'; readonly round: number; readonly limit: number }
  | { readonly type: 'call'; readonly id: string; readonly name: string; readonly arguments: Wish['arguments'] }
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
  /** The answer, without markup of calls. */
  readonly text: string
  /** Everything that was said, the system message first. */
  readonly messages: readonly ChatMessage[]
  readonly calls: readonly (Pick<Wish, 'name' | 'arguments'> & ToolAnswer)[]
  /** Rounds of tool calls that it took, and how many there could have been in the end. */
  readonly rounds: number
  readonly limit: number
  /** How the model was given tools. */
  readonly mode: ToolUseMode
  /** Addresses that tools named. */
  readonly urls: readonly string[]
}

const ANSWER_NOW = 'No more tools can be called. Answer now with what you have.'
/** More than anybody needs at once, and few enough to leave others their turn. */
const MOST_CALLS = 64
const ONE_MORE = `E_TOO_LARGE: ${MOST_CALLS} calls of one answer are made; this is one more. Make it again in the next answer.`
/** How servers say that they take no tools. */
const REFUSALS: ReadonlySet<number> = new Set([400, 404, 405, 415, 422, 500, 501])

/**
 * Lets a model use tools until it answers. Calls of one round run at the same time; their failures go back to the model as
 * text. When the rounds are used up, the model is asked once more, without tools.
 * @throws PegboardError E_LOOP_LIMIT when it calls tools even then, E_CANCELLED, E_TIMEOUT, E_BACKEND_UNAVAILABLE
 */
export async function runConversation(options: ConversationOptions): Promise<ConversationResult> {
  const { toolset, endpoint, signal, onEvent } = options
  const { loop, begin } = createToolLoop(options.rounds)
  const { textTools } = toolset
  const cited = createCitations()
  const calls: (Pick<Wish, 'name' | 'arguments'> & ToolAnswer)[] = []
  const said: ChatMessage[] =
    typeof options.messages === 'string' ? [{ role: 'user', content: options.messages }] : [...options.messages]
  let mode = toolset.mode(endpoint.provider)

  const dialect = (): Dialect => (mode === 'text' ? textDialect : nativeDialect(textTools === 'fallback'))
  const system = (): ChatMessage => ({ role: 'system', content: toolset.systemPrompt({ ...options.prompt, mode }) })

  async function ask(withTools: boolean): Promise<Turn> {
    const tools = toolset.list()
    const messages = [system(), ...said, ...(withTools ? [] : [{ role: 'user', content: ANSWER_NOW }])]
    const answer = await chat(endpoint, { messages, ...(withTools ? dialect().request(tools) : {}) }, signal)
    if (answer.ok) {
      said.push(answer.message)
      return dialect().read(answer.message, tools)
    }
    const { status, text } = answer
    if (mode === 'native' && textTools === 'fallback' && REFUSALS.has(status) && /tool|function/i.test(text)) {
      mode = 'text'
      return ask(withTools)
    }
    const turn = textTools === 'off' || !text.includes('failed_generation') ? undefined : writtenTurn(text, tools)
    if (!turn || turn.wishes.length === 0) throw refused(status, text)
    said.push({ role: 'assistant', content: failedGeneration(text) })
    return turn
  }

  async function run(wish: Wish): Promise<ToolAnswer> {
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
                ...(total === undefined ? {} : { total }),
                ...(message === undefined ? {} : { message }),
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
      return { text: turn.text, messages: [system(), ...said], calls, rounds, limit, mode, urls }
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
    said.push(...turn.answer(answers))
  }
}

/** What the model wrote, out of the error it came in. */
function failedGeneration(text: string): string {
  const { error, failed_generation: failed } = (parsed(text) ?? {}) as Readonly<Record<string, unknown>>
  const inner = (error as { readonly failed_generation?: unknown } | undefined)?.failed_generation ?? failed
  return typeof inner === 'string' ? inner : text
}
