import { z } from 'zod'

export const deliberateOptions = z.lazy(() =>
  z.strictObject({
    enabled: z
      .boolean()
      .default(false)
      .describe("List tools with an intent (image, voice, …) only when the user's message asks for it."),
    keepTurns: z.int().min(0).max(10).default(4).describe('Number of turns for which such a tool stays listed.'),
    triggers: z
      .record(z.string(), z.array(z.string().min(1).max(200)).max(200))
      .default({})
      .describe('Additional phrases for each intent.'),
  }),
)

export type DeliberateSettings = z.output<typeof deliberateOptions>
