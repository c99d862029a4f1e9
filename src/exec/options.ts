import { z } from 'zod'

export const executionOptions = z.strictObject({
  timeoutMs: z.int().min(1).max(600_000).default(60_000).describe('How long one call may take.'),
  maxConcurrent: z.int().min(1).default(1_024).describe('Calls running at once; the next ones wait.'),
  maxQueued: z
    .int()
    .min(0)
    .default(1_000)
    .describe(
      'Calls waiting for a slot, of which those of each principal are served in turn; more are refused with E_OVERLOADED.',
    ),
  watchers: z.boolean().default(false).describe('Whether clients may have tools called again and again (watch_*).'),
  scheduler: z
    .boolean()
    .default(false)
    .describe('Whether clients may have tools called later (schedule_*, remind) and remember facts; needs watchers.'),
  missedGraceMs: z
    .int()
    .min(0)
    .default(60 * 60_000)
    .describe('How late a job that was missed while nothing ran is still run.'),
  autoBackgroundAfterMs: z
    .int()
    .min(0)
    .default(0)
    .describe('Calls that take longer than this go on in the background, and their client gets a task_id; 0 never.'),
  repeatWarning: z
    .int()
    .min(0)
    .default(0)
    .describe('From so many same calls in a session on, each answer has a warning beside it; 0 never.'),
  outputChannels: z
    .array(z.string().min(1))
    .default([])
    .describe(
      'Channels that clients may have results sent to, as patterns: `telegram:42`, `telegram:*`. Their own need none.',
    ),
  tasks: z
    .strictObject({
      resultTtlMs: z
        .int()
        .min(1_000)
        .default(60 * 60_000)
        .describe('How long the result of a background task is kept.'),
      maxRunning: z.int().min(1).default(32).describe('Background tasks of one client running at once.'),
    })
    .prefault({})
    .describe('Work that outlives a call.'),
  maxResultBytes: z
    .int()
    .min(1_024)
    .max(256 * 1024 * 1024)
    .default(2 * 1024 * 1024)
    .describe(
      "Longest result that is handed on, in bytes. A longer one is E_TOO_LARGE; of a module's text the beginning comes, with all of it as a file.",
    ),
})

export type ExecutionSettings = z.infer<typeof executionOptions>
