import { z } from 'zod'

export const exposureOptions = z.lazy(() =>
  z.strictObject({
    mode: z
      .enum(['auto', 'direct', 'compact', 'discovery', 'code'])
      .default('auto')
      .describe(
        'What clients see: all tools (direct), names with one line each (compact), the five meta-tools (discovery), or search and a tool that runs scripts (code). auto decides between direct and discovery by the token budget.',
      ),
    contextWindow: z.int().min(1).default(131_072).describe('Context window of the model of the client, in tokens.'),
    share: z.number().gt(0).max(1).default(0.2).describe('Maximum share of the context window for tool definitions.'),
    estimator: z
      .enum(['measured', 'flat'])
      .default('measured')
      .describe(
        'How to estimate tokens: measured (from the length of the definitions) or flat (tokensPerTool for each tool).',
      ),
    tokensPerTool: z.int().min(1).default(200).describe('Tokens for each tool, for the flat estimator.'),
    schema: z
      .enum(['portable', 'strict', 'as-is'])
      .default('portable')
      .describe(
        'How to adapt schemas. portable: resolve references, drop rare formats and add missing `items`. strict: also merge alternatives at the top level into one object, which some providers require. as-is: no change.',
      ),
    primitives: z.boolean().default(true).describe('Offer the tools for parallel and background calls.'),
    pinned: z.array(z.string()).default([]).describe('Tool ids to list in discovery mode, too.'),
  }),
)

export type ExposureSettings = z.infer<typeof exposureOptions>
