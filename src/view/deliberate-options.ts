import { z } from 'zod'

export const deliberateOptions = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Offer tools with an intent (image, voice, …) only when the message of the turn asks for what they do.'),
  keepTurns: z
    .int()
    .min(0)
    .max(10)
    .default(4)
    .describe('Turns for which such a tool stays offered after it was asked for or used.'),
  triggers: z
    .record(z.string(), z.array(z.string().min(1).max(200)).max(200))
    .default({})
    .describe('More phrases that ask for an intent, word for word, by intent.'),
})

export type DeliberateSettings = z.output<typeof deliberateOptions>
