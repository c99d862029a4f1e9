import { z } from 'zod'
import { WIRE_NAME_MAX } from '../core/tool-names.ts'
import { maxResultTokens } from '../results/results-options.ts'

export const clientOptions = z.lazy(() =>
  z.strictObject({
    maxTools: z
      .int()
      .min(5)
      .optional()
      .describe('Maximum number of tools. With more tools, the five meta-tools are listed instead.'),
    maxNameLength: z
      .int()
      .min(20)
      .max(WIRE_NAME_MAX)
      .optional()
      .describe(
        "Maximum length of a tool name, without the client's own prefix. Longer names are shortened and get a hash.",
      ),
    schema: z
      .enum(['portable', 'strict', 'as-is'])
      .optional()
      .describe('How to adapt schemas, instead of exposure.schema.'),
    maxResultBytes: z
      .int()
      .min(1_024)
      .optional()
      .describe('Maximum size of a result, in bytes. A longer result is kept like one that has too many tokens.'),
    maxResultTokens: maxResultTokens.optional(),
    wholeResources: z
      .boolean()
      .optional()
      .describe(
        'Send resources whole, for a client that is an application and not a model (default false: of a resource above the limit, the client gets a part and a handle).',
      ),
    reads: z
      .enum(['content', 'structured', 'both'])
      .optional()
      .describe(
        'The part of a result that its model reads (default: as known for the client, else both). Pegboard sends the other part only where the protocol requires it.',
      ),
    outputSchemas: z
      .boolean()
      .optional()
      .describe(
        'Whether to list the output schemas of tools (default: only of tools whose results have no limit). With true, a result above the limit is an error that names its handle.',
      ),
    trustsListChanged: z
      .boolean()
      .optional()
      .describe(
        'Whether the client reads its tool list again after a change. With false, Pegboard sends no list changes, and lists the meta-tools until the tools of all servers are known.',
      ),
    deferralKeys: z
      .array(z.string().min(1))
      .optional()
      .describe('Keys to set to true in `_meta` of the meta-tools, so that the client always loads them.'),
    maxInstructions: z
      .int()
      .min(500)
      .max(2_000)
      .optional()
      .describe('Maximum length of the instructions, in characters.'),
    exposure: z
      .strictObject({
        mode: z
          .enum(['auto', 'direct', 'compact', 'discovery', 'code'])
          .optional()
          .describe('Exposure mode, instead of exposure.mode.'),
        contextWindow: z.int().min(1).optional().describe('Context window of its model, in tokens.'),
        share: z.number().gt(0).max(1).optional().describe('Maximum share of the context window for tool definitions.'),
      })
      .default({})
      .describe('How Pegboard lists tools to it.'),
  }),
)

/** Settings of clients, by name or pattern. */
export type ClientSettings = Readonly<Record<string, z.output<typeof clientOptions>>>
