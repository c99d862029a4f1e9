import { type CallContext, type Memory, ToolError, type ToolView, z } from 'pegboard'
import { hasKv } from '../_kv.ts'

const PARTS = ['facts', 'tasks', 'graph', 'threadweave'] as const
export type Part = (typeof PARTS)[number]

export const Config = z.strictObject({
  enabled: z.boolean().default(false).describe('Enable the tools.'),
  parts: z
    .array(z.enum(PARTS))
    .default(['facts', 'tasks', 'graph'])
    .describe('Parts to enable: facts, goal and tasks, the knowledge graph, threadweave.'),
})

export type Settings = z.infer<typeof Config>
export type Context = CallContext<Settings>

export const SETTING = 'modules.memory.config'

/** Why a part is unavailable, or true if it is available. */
export const has =
  (part: Part) =>
  ({ config, services }: ToolView<Settings>): true | string => {
    if (!config.parts.includes(part)) return `add "${part}" to ${SETTING}.parts`
    if (services.memory === null) return 'set services.memory to true'
    return hasKv({ services })
  }

/** @throws ToolError if the host provides no memory */
export function memoryOf({ services }: Pick<Context, 'services'>): Memory {
  if (services.memory) return services.memory
  throw new ToolError('Nothing can be stored here.', { hint: 'The operator sets services.memory to true.' })
}

export const words = (text: string): readonly string[] => [
  ...new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []),
]
