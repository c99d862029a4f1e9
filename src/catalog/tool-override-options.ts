import { z } from 'zod'
import { EFFECTS } from '../core/tool.ts'
import { maxResultTokens } from '../results/results-options.ts'

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
    effect: z.enum(EFFECTS).optional().describe('Maximum effect of the tool, whatever its name and its server say.'),
    timeoutMs: z
      .int()
      .min(100)
      .max(600_000)
      .optional()
      .describe('Maximum duration of a call of this tool, in milliseconds.'),
    maxResultTokens: maxResultTokens.optional(),
  }),
)

/** Settings of one tool of a server or an API, by its own name. */
export type ToolOverride = z.output<typeof toolOverrideOptions>
