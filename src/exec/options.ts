import { z } from 'zod'

export const executionOptions = z.strictObject({
  timeoutMs: z.int().min(1).max(600_000).default(60_000).describe('How long one call may take.'),
  maxConcurrent: z.int().min(1).default(256).describe('Calls running at once; the next ones wait.'),
  maxQueued: z.int().min(0).default(1_000).describe('Calls waiting for a slot; more are refused with E_OVERLOADED.'),
  maxResultBytes: z
    .int()
    .min(1_024)
    .max(256 * 1024 * 1024)
    .default(2 * 1024 * 1024)
    .describe('Longest result of a server that is handed on, in bytes; a longer one is E_TOO_LARGE.'),
})

export type ExecutionSettings = z.infer<typeof executionOptions>
