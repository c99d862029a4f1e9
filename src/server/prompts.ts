import { type ToolUseMode, toolUseMode } from '../agent/mode.ts'
import { systemPrompt } from '../agent/prompt.ts'
import type { Caller } from '../core/context.ts'
import { ProtocolFailure } from '../core/failure.ts'
import type { ServerHost } from './host.ts'
import { toldWithFacts } from './instructions.ts'

const SYSTEM_PROMPT = 'system_prompt'
const MODES: readonly ToolUseMode[] = ['native', 'text']
const INVALID_PARAMS = -32602

/** The prompts Pegboard offers of itself. They come before those of upstream servers, whatever those are called. */
export const ownPrompts: readonly Readonly<Record<string, unknown>>[] = [
  {
    name: SYSTEM_PROMPT,
    title: 'System prompt',
    description:
      'What an agent on these tools should be told: who it is, how many tools there are and how to get at them.',
    arguments: [
      { name: 'agent_id', description: 'Name of the agent; default assistant.', required: false },
      { name: 'role', description: 'What it is for; default assistant.', required: false },
      {
        name: 'mode',
        description:
          'native for models that call tools themselves, text for those that can only write; default by the provider of the profile.',
        required: false,
      },
      { name: 'user_prompt', description: 'Comes last.', required: false },
    ],
  },
]

export const isOwnPrompt = (name: unknown): boolean => name === SYSTEM_PROMPT

/** @throws ProtocolFailure for a mode there is none of */
export async function getOwnPrompt(
  host: ServerHost,
  caller: Caller,
  given: Readonly<Record<string, unknown>> = {},
): Promise<Readonly<Record<string, unknown>>> {
  const mode = given['mode'] || toolUseMode(host.view(caller).profile.provider, host.textTools)
  if (!isMode(mode))
    throw new ProtocolFailure(INVALID_PARAMS, `mode is ${MODES.join(' or ')}, not "${String(mode).slice(0, 40)}"`)
  const text = systemPrompt({
    ...(await toldWithFacts(host, caller)),
    mode,
    ...textOf(given, 'agent_id', 'agentId'),
    ...textOf(given, 'role', 'role'),
    ...textOf(given, 'user_prompt', 'userPrompt'),
  })
  return { description: 'System prompt', messages: [{ role: 'user', content: { type: 'text', text } }] }
}

/** Completion of an argument of ours. */
export function completeOwn(argument: unknown): Readonly<Record<string, unknown>> {
  const { name, value } = argument as { readonly name?: unknown; readonly value?: unknown }
  const values = name === 'mode' ? MODES.filter((mode) => mode.startsWith(String(value))) : []
  return { completion: { values, total: values.length, hasMore: false } }
}

const isMode = (mode: unknown): mode is ToolUseMode => MODES.some((one) => one === mode)

const textOf = (
  given: Readonly<Record<string, unknown>>,
  key: string,
  name: string,
): Readonly<Record<string, string>> =>
  typeof given[key] === 'string' && given[key] !== '' ? { [name]: given[key] } : {}
