import { z } from 'zod'
import type { Effect } from '../core/tool.ts'
import { maxResultTokens } from '../results/results-options.ts'

/** Settings of one tool of a server or an API, by its own name. */
export interface ToolOverride {
  /** Replaces its name, after the prefix. */
  readonly rename?: string
  /** Replaces its description. */
  readonly describe?: string
  /** Additional names, for calls and for search. */
  readonly alias: readonly string[]
  /** Id of a tool that is hidden while this one is available. */
  readonly replaces?: string
  readonly timeoutMs?: number
  /** Maximum tokens of a result; 0: no limit. */
  readonly maxResultTokens?: number
  /** Maximum effect, whatever the server says. */
  readonly effect?: Effect
}

export const toolOverrideOptions = z.lazy(() =>
  z.strictObject({
    rename: z.string().min(1).max(64).optional().describe("Name of the tool, instead of the server's."),
    describe: z.string().min(1).optional().describe("Description of the tool, instead of the server's."),
    alias: z
      .union([z.string(), z.array(z.string())])
      .transform((given) => (typeof given === 'string' ? [given] : given))
      .optional()
      .describe('Additional names to find and call it by.'),
    replaces: z.string().optional().describe('Tool that is hidden while this one is available, such as "notes.find".'),
    effect: z
      .enum(['read', 'write', 'destructive'])
      .optional()
      .describe('Maximum effect of the tool, whatever its name and its server say.'),
    timeoutMs: z
      .int()
      .min(100)
      .max(600_000)
      .optional()
      .describe('Maximum duration of a call of this tool, in milliseconds.'),
    maxResultTokens: maxResultTokens.optional(),
  }),
)

/** Fills in the defaults. */
export function readOverrides(
  tools: Readonly<Record<string, z.output<typeof toolOverrideOptions>>>,
): Readonly<Record<string, ToolOverride>> {
  return Object.fromEntries(
    Object.entries(tools).map(
      ([name, { rename, describe, alias, replaces, timeoutMs, maxResultTokens: tokens, effect }]) => [
        name,
        {
          alias: alias ?? [],
          ...(rename === undefined ? {} : { rename }),
          ...(describe === undefined ? {} : { describe }),
          ...(replaces === undefined ? {} : { replaces }),
          ...(timeoutMs === undefined ? {} : { timeoutMs }),
          ...(tokens === undefined ? {} : { maxResultTokens: tokens }),
          ...(effect === undefined ? {} : { effect }),
        },
      ],
    ),
  )
}
