import { type ToolUseMode, toolUseMode } from '../agent/tool-use-mode.ts'
import { systemPrompt } from '../agent/tools-prompt.ts'
import type { Caller } from '../core/caller.ts'
import type { Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import { instructionsWithFacts } from './instructions.ts'
import type { PromptHost } from './server-host.ts'

const SYSTEM_PROMPT = 'system_prompt'
const MODES: readonly ToolUseMode[] = ['native', 'text']
const INVALID_PARAMS = -32602

/** The prompts of Pegboard itself. They take precedence over prompts of servers with the same name. */
export const ownPrompts: readonly Json[] = [
  {
    name: SYSTEM_PROMPT,
    title: 'System prompt',
    description: 'System prompt for an agent that uses these tools: its role, the number of tools and how to use them.',
    arguments: [
      { name: 'agent_id', description: 'Name of the agent (default: assistant).', required: false },
      { name: 'role', description: 'Purpose of the agent (default: assistant).', required: false },
      {
        name: 'mode',
        description:
          'native for models that call tools themselves, text for models that can only write text (default: by the provider of the profile).',
        required: false,
      },
      { name: 'user_prompt', description: 'Comes last.', required: false },
    ],
  },
]

export const isOwnPrompt = (name: unknown): boolean => name === SYSTEM_PROMPT

/** @throws ProtocolFailure -32602 for an unknown mode */
export async function getOwnPrompt(host: PromptHost, caller: Caller, args: Json = {}): Promise<Json> {
  const mode = args['mode'] || toolUseMode(host.view(caller).profile.provider, host.textTools)
  if (!isMode(mode))
    throw new ProtocolFailure(INVALID_PARAMS, `mode is ${MODES.join(' or ')}, not "${String(mode).slice(0, 40)}"`)
  const textOf = (key: string): string | undefined =>
    typeof args[key] === 'string' && args[key] !== '' ? args[key] : undefined
  const text = systemPrompt({
    ...(await instructionsWithFacts(host, caller)),
    mode,
    ...omitUndefined({ agentId: textOf('agent_id'), role: textOf('role'), userPrompt: textOf('user_prompt') }),
  })
  return { description: 'System prompt', messages: [{ role: 'user', content: { type: 'text', text } }] }
}

export function completeOwn(argument: unknown): Json {
  const { name, value } = argument as { readonly name?: unknown; readonly value?: unknown }
  const values = name === 'mode' ? MODES.filter((mode) => mode.startsWith(String(value))) : []
  return { completion: { values, total: values.length, hasMore: false } }
}

const isMode = (mode: unknown): mode is ToolUseMode => MODES.some((one) => one === mode)
