import { z } from 'zod'

export const auditOptions = z.strictObject({
  enabled: z.boolean().default(false).describe('Write a line about every call and every decision about one.'),
  file: z
    .string()
    .min(1)
    .optional()
    .describe('Where, relative to this file. Default: audit.jsonl in dirs.state. Only its owner can read it.'),
  maxBytes: z
    .int()
    .min(1_024)
    .default(100 * 1024 * 1024)
    .describe('A file that would become longer is put aside as audit.jsonl.1 and so on.'),
  keep: z.int().min(1).max(1_000).default(5).describe('How many of those are kept.'),
  arguments: z
    .enum(['shape', 'redacted'])
    .default('shape')
    .describe('What is written of arguments: types and sizes, or values without credentials, cut short.'),
})

export type AuditSettings = z.infer<typeof auditOptions>
