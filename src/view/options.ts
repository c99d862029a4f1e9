import { z } from 'zod'

export const exposureOptions = z.strictObject({
  mode: z
    .enum(['auto', 'direct', 'compact', 'discovery'])
    .default('auto')
    .describe(
      'direct lists every tool, compact their names and one-liners, discovery the five meta-tools; auto measures.',
    ),
  contextWindow: z.int().min(1).default(131_072).describe('Context window of the model behind the client, in tokens.'),
  share: z.number().gt(0).max(1).default(0.2).describe('Share of the context window that tool definitions may fill.'),
  estimator: z
    .enum(['measured', 'flat'])
    .default('measured')
    .describe('measured counts the serialised definitions; flat takes tokensPerTool for each.'),
  tokensPerTool: z.int().min(1).default(200).describe('What one tool costs for the flat estimator.'),
  schema: z
    .enum(['portable', 'strict', 'as-is'])
    .default('portable')
    .describe(
      'portable writes references out, drops rare formats and gives every list items; strict also makes one object of alternatives at the top, which some providers refuse; as-is changes nothing.',
    ),
  primitives: z.boolean().default(true).describe('Whether clients have the tools for parallel and background work.'),
  pinned: z.array(z.string()).default([]).describe('Tool ids that are listed in discovery mode too.'),
})

export type ExposureSettings = z.infer<typeof exposureOptions>
