import { z } from 'zod'

export const auditOptions = z.lazy(() =>
  z.strictObject({
    enabled: z.boolean().default(false).describe('Write an audit log of all calls and decisions.'),
    file: z
      .string()
      .min(1)
      .optional()
      .describe(
        'File of the audit log, relative to this file (default: audit.jsonl in dirs.state). Only its owner can read it.',
      ),
    maxBytes: z
      .int()
      .min(1_024)
      .default(100 * 1024 * 1024)
      .describe('Maximum size of the file. Pegboard then renames it to audit.jsonl.1 and starts a new one.'),
    keep: z.int().min(1).max(1_000).default(5).describe('Number of old files to keep.'),
    arguments: z
      .enum(['shape', 'redacted'])
      .default('shape')
      .describe(
        'What to log of arguments: types and sizes (shape), or shortened values without credentials (redacted).',
      ),
  }),
)

export type AuditSettings = z.infer<typeof auditOptions>

export const logOptions = z.lazy(() =>
  z.strictObject({
    level: z
      .enum(['debug', 'info', 'warn', 'error'])
      .optional()
      .describe('Minimum level of log lines (default info; warn on a terminal). --verbose means debug.'),
    format: z
      .enum(['json', 'text'])
      .optional()
      .describe(
        'Format of log lines on stderr: json, or text without times (default: text on a terminal, json elsewhere). In a terminal, serve --http prints one line per event unless this is set.',
      ),
  }),
)

export const telemetryOptions = z.lazy(() =>
  z.strictObject({
    traces: z.boolean().default(false).describe('Send a trace of every request. Needs the OpenTelemetry packages.'),
    metrics: z
      .boolean()
      .default(false)
      .describe('Send counts and durations of calls. Needs the OpenTelemetry packages.'),
    prometheus: z
      .boolean()
      .default(false)
      .describe(
        'Serve GET /metrics for Prometheus. Requires the operator\'s token or a token with the role "metrics".',
      ),
    tokens: z
      .enum(['o200k', 'estimate', 'off'])
      .default('o200k')
      .describe(
        'How to count the tokens that tools cost models: with the o200k vocabulary, by an estimate, or not at all. pegboard usage shows them.',
      ),
    endpoint: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe('Address of the OTLP collector (default: OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4318).'),
    headers: z
      .record(z.string(), z.string())
      .default({})
      .describe(
        'Headers for the collector, such as {"authorization": "${OTLP_TOKEN}"}, in addition to OTEL_EXPORTER_OTLP_HEADERS.',
      ),
    serviceName: z
      .string()
      .min(1)
      .max(255)
      .optional()
      .describe('Service name in telemetry (default: OTEL_SERVICE_NAME, or server.name).'),
    sampling: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe('Share of traces to keep if the client did not decide (default: OTEL_TRACES_SAMPLER, or all).'),
    propagate: z
      .boolean()
      .default(true)
      .describe('Send the trace context to upstream servers, so that their spans join the trace.'),
    intervalMs: z.int().min(1_000).max(3_600_000).default(60_000).describe('Interval between two metric exports.'),
  }),
)

export type LogSettings = z.infer<typeof logOptions>
export type TelemetrySettings = z.infer<typeof telemetryOptions>
