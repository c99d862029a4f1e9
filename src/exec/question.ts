import type { Question } from '../core/context.ts'
import { plain } from '../core/plain.ts'
import { shown } from '../core/shown.ts'
import type { Tool } from '../core/tool.ts'
import type { Asking } from '../policy/policy.ts'
import { shortOf } from '../policy/rules.ts'

const MAX_ARGUMENTS = 4_000

const EFFECTS = { read: 'reads', write: 'changes something', destructive: 'may destroy something' } as const

/**
 * Asks whether this call may be made. The answer is the action itself: there is nothing to fill in.
 * @param hide takes out what is known to be secret
 */
export function confirmation(tool: Tool, input: unknown, asking: Asking, hide: (text: string) => string): Question {
  const whole = hide(JSON.stringify(shown(input), undefined, 2))
  const given =
    whole.length > MAX_ARGUMENTS
      ? `${whole.slice(0, MAX_ARGUMENTS)}… (${whole.length - MAX_ARGUMENTS} more characters)`
      : whole
  const owner = tool.origin === 'upstream' ? `of the server ${shortOf(tool.module)}` : `of the module ${tool.module}`
  const lines = [
    `May ${plain(tool.id)} run?`,
    `It is a tool ${plain(owner)} and ${EFFECTS[tool.effect]}.`,
    ...(asking.reason === undefined ? [] : [`Why you are asked: ${plain(asking.reason)}`]),
    `Arguments: ${given}`,
  ]
  return { message: lines.join('\n'), schema: { type: 'object', properties: {} } }
}
