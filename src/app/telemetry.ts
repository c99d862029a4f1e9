import { readdir } from 'node:fs/promises'
import type { Config } from '../config/load-config.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { createObserver } from '../observe/create-observer.ts'
import {
  createMetricRegistry,
  type MetricFamily,
  type MetricPoint,
  type MetricRegistry,
} from '../observe/metric-registry.ts'
import type { Telemetry } from '../observe/otel.ts'
import { type Counts, KINDS } from '../receipts/daily-counts.ts'

/** Called when a reader collects the gauges. */
export interface GaugeSources {
  calls(): { readonly running: number; readonly waiting: number }
  upstreams(): readonly { readonly id: string; readonly state: string }[]
  tasks(): number
  /** Number of stored documents of a kind; undefined if none was ever stored. */
  storedCount(kind: 'job' | 'watcher'): Promise<number> | undefined
  auditDropped(): number
  logDropped(): number
  /** Tokens since the start; undefined if they are not counted. */
  tokens(): Counts | undefined
}

export interface TelemetryOptions {
  readonly config: Pick<Config, 'telemetry' | 'server'>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly version: string
  readonly log: Log
}

/**
 * Measurements of this process, and where they are sent.
 * `undefined` if the configuration enables none of it, so that it costs nothing.
 */
export function createTelemetry({ config, env, version, log }: TelemetryOptions) {
  const { telemetry: settings, server } = config
  const sends = (settings.traces || settings.metrics) && env['OTEL_SDK_DISABLED']?.toLowerCase() !== 'true'
  if (!sends && !settings.prometheus) return undefined
  const registry = createMetricRegistry()
  let telemetry: Promise<Telemetry | undefined> | undefined
  let stopProcess: (() => void) | undefined
  const load = (): Promise<Telemetry | undefined> => {
    telemetry ??= import('../observe/otel.ts')
      .then(({ startTelemetry }) =>
        startTelemetry({ settings, serviceName: env['OTEL_SERVICE_NAME'] ?? server.name, version, registry, log }),
      )
      .catch(async (error: unknown) => {
        const { PACKAGES } = await import('../observe/otel.ts')
        log.error('telemetry is on, but its packages cannot be loaded', {
          error: messageOf(error).split('\n', 1)[0],
          hint: `npm install ${PACKAGES}`,
        })
        return undefined
      })
    return telemetry
  }
  const observer = createObserver({
    registry,
    ...(sends ? { tracer: async () => (await load())?.tracer } : {}),
    propagate: settings.propagate,
  })
  return {
    observer,
    registry,
    /** Adds gauges of the parts. Call it once. */
    observeParts: (parts: GaugeSources): void => addGauges(registry, parts),
    /** Starts to load the packages that send measurements, in the background. */
    start(): void {
      if (sends) void load()
      stopProcess ??= addProcessMetrics(registry)
    },
    async stop(): Promise<void> {
      stopProcess?.()
      await (await telemetry)?.stop()
    },
  }
}

const MAX_SERVERS = 200

type Value = number | readonly MetricPoint[]

/** Adds metrics whose values are read when a reader collects them. */
const createAdder =
  (registry: MetricRegistry) =>
  (type: MetricFamily['type'], name: string, help: string, read: () => Value | Promise<Value>, unit = ''): void =>
    registry.observe({ name, help, type, unit }, async () => {
      const value = await read()
      return typeof value === 'number' ? [{ labels: {}, value }] : value
    })

function addGauges(registry: MetricRegistry, parts: GaugeSources): void {
  const add = createAdder(registry)
  add('gauge', 'pegboard.calls.running', 'Running calls.', () => parts.calls().running)
  add('gauge', 'pegboard.calls.waiting', 'Waiting calls.', () => parts.calls().waiting)
  add('gauge', 'pegboard.upstreams', 'Upstream servers by state.', () => {
    const states = new Map<string, number>()
    for (const { state } of parts.upstreams()) states.set(state, (states.get(state) ?? 0) + 1)
    return [...states].map(([state, value]) => ({ labels: { state }, value }))
  })
  add('gauge', 'pegboard.upstream.ready', 'Whether the upstream server is connected.', () =>
    parts
      .upstreams()
      .slice(0, MAX_SERVERS)
      .map(({ id, state }) => ({ labels: { 'pegboard.server': id }, value: state === 'ready' ? 1 : 0 })),
  )
  add('gauge', 'pegboard.tasks.running', 'Running background tasks.', parts.tasks)
  add('gauge', 'pegboard.schedules', 'Stored schedules.', async () => (await parts.storedCount('job')) ?? 0)
  add('gauge', 'pegboard.watchers', 'Stored watchers.', async () => (await parts.storedCount('watcher')) ?? 0)
  add('counter', 'pegboard.tokens', 'Tokens that models read of Pegboard, by what they were spent on.', () => {
    const counts = parts.tokens()
    return counts ? KINDS.map((kind) => ({ labels: { kind }, value: Math.round(counts[kind]) })) : []
  })
  const direct = 'Tokens that the same sessions would have cost with all tools listed and all results whole.'
  add('counter', 'pegboard.tokens.direct', direct, () => {
    const counts = parts.tokens()
    return counts ? Math.max(0, Math.round(counts.direct)) : []
  })
  add('counter', 'pegboard.log.dropped', 'Log lines that were dropped because nothing read stderr.', parts.logDropped)
  add('counter', 'pegboard.audit.dropped', 'Audit log lines that could not be written.', parts.auditDropped)
}

const LAG_RESOLUTION_MS = 20

/** Metrics of the process, under their usual names. Returns a function that stops measuring. */
function addProcessMetrics(registry: MetricRegistry): () => void {
  const add = createAdder(registry)
  add('gauge', 'process.resident_memory', 'Memory use of the process.', process.memoryUsage.rss, 'By')
  add('gauge', 'nodejs.heap.used', 'Heap in use.', () => process.memoryUsage().heapUsed, 'By')
  const cpuSeconds = (): number => (process.cpuUsage().user + process.cpuUsage().system) / 1_000_000
  add('counter', 'process.cpu', 'Time on processors.', cpuSeconds, 's')
  const startedAt = Date.now() / 1_000 - process.uptime()
  add('gauge', 'process.start_time', 'When it started.', () => startedAt, 's')
  if (process.platform === 'linux')
    add('gauge', 'process.open_fds', 'Open files and sockets.', async () => (await readdir('/proc/self/fd')).length)
  let lag: import('node:perf_hooks').IntervalHistogram | undefined
  let isStopped = false
  void import('node:perf_hooks').then(({ monitorEventLoopDelay }) => {
    if (isStopped) return
    lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
    lag.enable()
  })
  // Not reset on reading, because several readers may exist.
  for (const [name, read] of [
    ['p50', () => lag?.percentile(50)],
    ['p99', () => lag?.percentile(99)],
    ['max', () => lag?.max],
  ] as const)
    add(
      'gauge',
      `nodejs.eventloop.delay.${name}`,
      'Event loop delay since the start.',
      () => Math.max(0, (read() ?? 0) / 1_000_000_000 - LAG_RESOLUTION_MS / 1_000),
      's',
    )
  return () => {
    isStopped = true
    lag?.disable()
  }
}
