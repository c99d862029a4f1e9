import { z } from 'zod'
import { WIRE_NAME_MAX } from '../core/names.ts'

export const clientOptions = z.strictObject({
  maxTools: z
    .int()
    .min(5)
    .optional()
    .describe('Tools it takes; where more would be listed, the five meta-tools are listed instead.'),
  maxNameLength: z
    .int()
    .min(20)
    .max(WIRE_NAME_MAX)
    .optional()
    .describe('Longest name of a tool, without what the client puts before it; a longer one is cut and given a hash.'),
  schema: z
    .enum(['portable', 'strict', 'as-is'])
    .optional()
    .describe('How schemas are listed, instead of exposure.schema.'),
  maxResultBytes: z
    .int()
    .min(1_024)
    .optional()
    .describe('Longest result it takes, in bytes; a longer one is E_TOO_LARGE.'),
  trustsListChanged: z
    .boolean()
    .optional()
    .describe(
      'Whether it takes over a changed list; false: it is told of none, and servers never seen mean discovery.',
    ),
  deferralKeys: z
    .array(z.string().min(1))
    .optional()
    .describe('Keys set to true in `_meta` of the meta-tools, so that the client does not hide them behind a search.'),
  maxInstructions: z.int().min(500).max(2_000).optional().describe('Characters of instructions that reach its model.'),
  exposure: z
    .strictObject({
      mode: z.enum(['auto', 'direct', 'compact', 'discovery']).optional().describe('Instead of exposure.mode.'),
      contextWindow: z.int().min(1).optional().describe('Context window of the model behind it, in tokens.'),
      share: z.number().gt(0).max(1).optional().describe('Share of the context window that tool definitions may fill.'),
    })
    .default({})
    .describe('How much of the tools it is shown.'),
})

/** What the operator says of clients, by name or pattern. */
export type ClientSettings = Readonly<Record<string, z.output<typeof clientOptions>>>
