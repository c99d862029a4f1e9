import { z } from 'zod'

export const stateOptions = z.lazy(() =>
  z.strictObject({
    url: z
      .string()
      .regex(/^rediss?:\/\//, 'a redis:// or rediss:// URL is required')
      .optional()
      .describe(
        'Where to keep tasks, schedules, watchers, notices and module data. redis://… shares them between machines (default: a file in dirs.state).',
      ),
    exclusive: z
      .boolean()
      .default(false)
      .describe('Allow only one process to use the state folder. A second one does not start.'),
    prefix: z
      .string()
      .regex(/^[\w.-]{1,64}$/)
      .default('pegboard')
      .describe('Prefix of all Redis keys. Servers with the same prefix share their state.'),
  }),
)
