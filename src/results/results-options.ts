import { z } from 'zod'

export const keptResultsOptions = z.lazy(() =>
  z.strictObject({
    keepMs: z
      .int()
      .min(1_000)
      .default(60 * 60_000)
      .describe('How long a result can be read by its handle. It is deleted earlier when its session ends.'),
    maxBytes: z
      .int()
      .min(1_024)
      .default(512 * 1024 * 1024)
      .describe('Maximum total size of the results of one principal, in bytes. The oldest are deleted first.'),
    maxCount: z
      .int()
      .min(1)
      .default(200)
      .describe('Maximum number of results of one principal. The oldest are deleted first.'),
  }),
)

export type KeptResultsSettings = z.infer<typeof keptResultsOptions>

/** The setting of a tool, a server, a client, or of all. */
export const maxResultTokens = z
  .union([z.literal(0), z.int().min(500)])
  .describe(
    'Maximum size of a result for the model, in tokens (0: no limit). A longer result is kept, and the model gets its shape, its beginning and a handle.',
  )
