import { z } from 'zod'
import { keptResultsOptions, maxResultTokens } from '../results/results-options.ts'

export const executionOptions = z.lazy(() =>
  z.strictObject({
    timeoutMs: z.int().min(1).max(600_000).default(60_000).describe('Maximum duration of one call.'),
    maxConcurrent: z
      .int()
      .min(1)
      .default(1_024)
      .describe('Maximum number of running calls; for one principal, seven eighths of it. Further calls wait.'),
    maxQueued: z
      .int()
      .min(0)
      .default(1_000)
      .describe('Maximum number of waiting calls. Principals take turns. Further calls fail with E_OVERLOADED.'),
    watchers: z.boolean().default(false).describe('Offer watchers (watch_*), which call a tool repeatedly.'),
    scheduler: z.boolean().default(false).describe('Offer schedules (schedule_*, remind) and facts. Needs watchers.'),
    missedGraceMs: z
      .int()
      .min(0)
      .default(60 * 60_000)
      .describe('Run a missed one-time job only if it is at most this late. Otherwise it is dropped.'),
    autoBackgroundAfterMs: z
      .int()
      .min(0)
      .default(0)
      .describe('Continue a call in the background after this long, and return a task_id (0: never).'),
    repeatWarning: z
      .int()
      .min(0)
      .default(0)
      .describe(
        'Warn in the result when a session makes the same call this many times or more, each at most ten minutes after the one before (0: never).',
      ),
    outputChannels: z
      .array(z.string().min(1))
      .default([])
      .describe(
        'Channels that clients can send results to, as patterns: `telegram:42`, `telegram:*`. The channel of the client itself is always allowed.',
      ),
    tasks: z
      .strictObject({
        resultTtlMs: z
          .int()
          .min(1_000)
          .default(60 * 60_000)
          .describe('How long to keep the result of a background task.'),
        maxRunning: z.int().min(1).default(32).describe('Maximum number of running background tasks for each client.'),
      })
      .prefault({})
      .describe('Work that outlives a call.'),
    maxResultTokens: maxResultTokens.default(8_000),
    results: keptResultsOptions.prefault({}).describe('Results that are too long for a model.'),
    maxResultBytes: z
      .int()
      .min(1_024)
      .max(256 * 1024 * 1024)
      .default(64 * 1024 * 1024)
      .describe(
        'Maximum size of a result of a server, in bytes. A longer one fails with E_TOO_LARGE, because Pegboard reads it into memory.',
      ),
  }),
)

export type ExecutionSettings = z.infer<typeof executionOptions>
