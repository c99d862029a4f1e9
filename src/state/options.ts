import { z } from 'zod'

export const stateOptions = z.strictObject({
  url: z
    .string()
    .regex(/^rediss?:\/\//, 'a redis:// or rediss:// URL is required')
    .optional()
    .describe(
      'redis://… shares tasks, schedules, watchers, notices and the stores of modules between several machines; default a file in dirs.state.',
    ),
  exclusive: z
    .boolean()
    .default(false)
    .describe('One process alone may use the state folder: a second one does not start, and says which has it.'),
  prefix: z
    .string()
    .regex(/^[\w.-]{1,64}$/)
    .default('pegboard')
    .describe('Beginning of all keys in Redis: instances with the same one belong together.'),
})

export type StateSettings = z.infer<typeof stateOptions>
