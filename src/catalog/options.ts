import { z } from 'zod'
import type { Effect } from '../core/tool.ts'

/** What the operator says of one tool, by its own name where it comes from. */
export interface ToolOverride {
  /** Takes the place of its name; the prefix still comes before. */
  readonly rename?: string
  /** Takes the place of its description. */
  readonly describe?: string
  /** Other names it is found and called by. */
  readonly alias: readonly string[]
  /** Id of a tool that this one stands in for: the other is hidden while this one is available. */
  readonly replaces?: string
  readonly timeoutMs?: number
  /** What it does at worst, whatever its server says. */
  readonly effect?: Effect
}

export const toolOverrideOptions = z.strictObject({
  rename: z.string().min(1).max(64).optional().describe('Name instead of the one the server gives.'),
  describe: z.string().min(1).optional().describe('Description instead of the one the server gives.'),
  alias: z
    .union([z.string(), z.array(z.string())])
    .transform((given) => (typeof given === 'string' ? [given] : given))
    .optional()
    .describe('Other names it is found and called by.'),
  replaces: z.string().optional().describe('Tool that is hidden while this one is available, such as "notes.find".'),
  effect: z
    .enum(['read', 'write', 'destructive'])
    .optional()
    .describe('What the tool does at worst, whatever its name and its server say.'),
  timeoutMs: z
    .int()
    .min(100)
    .max(600_000)
    .optional()
    .describe('Longest a call of this tool may take, in milliseconds.'),
})

/** Overrides as the rest of the program reads them. */
export function readOverrides(
  tools: Readonly<Record<string, z.output<typeof toolOverrideOptions>>>,
): Readonly<Record<string, ToolOverride>> {
  return Object.fromEntries(
    Object.entries(tools).map(([name, { rename, describe, alias, replaces, timeoutMs, effect }]) => [
      name,
      {
        alias: alias ?? [],
        ...(rename === undefined ? {} : { rename }),
        ...(describe === undefined ? {} : { describe }),
        ...(replaces === undefined ? {} : { replaces }),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
        ...(effect === undefined ? {} : { effect }),
      },
    ]),
  )
}
