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

export const logOptions = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error'])
    .optional()
    .describe(
      'What is logged while serving, from this level on; default info, and warn at a terminal. --verbose is debug.',
    ),
  format: z
    .enum(['json', 'text'])
    .optional()
    .describe('Lines of JSON, or sentences; default sentences at a terminal and JSON elsewhere. Always on stderr.'),
})

export const telemetryOptions = z.strictObject({
  traces: z.boolean().default(false).describe('Send a trace of every request; needs the packages of OpenTelemetry.'),
  metrics: z.boolean().default(false).describe('Send how often and how long calls ran; needs those packages, too.'),
  prometheus: z
    .boolean()
    .default(false)
    .describe(
      'GET /metrics tells what Prometheus reads, to the operator\'s own token and to those with the role "metrics".',
    ),
  endpoint: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe(
      'Of a collector that takes OTLP over HTTP. Default: OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4318.',
    ),
  headers: z
    .record(z.string(), z.string())
    .default({})
    .describe('Sent to it, such as {"authorization": "${OTLP_TOKEN}"}; beside those of OTEL_EXPORTER_OTLP_HEADERS.'),
  serviceName: z
    .string()
    .min(1)
    .max(255)
    .optional()
    .describe('What this server is called there. Default: OTEL_SERVICE_NAME, or server.name.'),
  sampling: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe(
      'The share of traces that is kept where the client has not decided. Default: OTEL_TRACES_SAMPLER, or all.',
    ),
  propagate: z
    .boolean()
    .default(true)
    .describe('Tell servers behind Pegboard which trace a request belongs to, so that theirs are part of it.'),
  intervalMs: z.int().min(1_000).max(3_600_000).default(60_000).describe('How often metrics are sent.'),
})

export type LogSettings = z.infer<typeof logOptions>
export type TelemetrySettings = z.infer<typeof telemetryOptions>
