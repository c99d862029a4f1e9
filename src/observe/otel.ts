import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Context, HrTime } from '@opentelemetry/api'
import type { MetricData, MetricProducer } from '@opentelemetry/sdk-metrics'
import { createDeferred } from '../core/deferred.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Operation, TraceContext } from '../core/observer-types.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { Tracer } from './create-observer.ts'
import type { MetricFamily, MetricRegistry } from './metric-registry.ts'
import type { TelemetrySettings } from './telemetry-options.ts'

const SCOPE = 'pegboard'
const EXPORT_MS = 5_000
/** Maximum wait for a collector at shutdown. */
const LAST_MS = 1_000
export const PACKAGES =
  '@opentelemetry/api @opentelemetry/resources @opentelemetry/sdk-trace-base @opentelemetry/sdk-metrics @opentelemetry/exporter-trace-otlp-http @opentelemetry/exporter-metrics-otlp-http'

export interface TelemetryOptions {
  readonly settings: TelemetrySettings
  /** Used when neither a setting nor OTEL_SERVICE_NAME is set. */
  readonly serviceName: string
  readonly version: string
  readonly registry: MetricRegistry
  readonly log: Log
}

export interface Telemetry {
  readonly tracer: Tracer | undefined
  /** Sends what is waiting, with one attempt. */
  stop(): Promise<void>
}

/**
 * Sets up the OpenTelemetry SDK with OTLP over HTTP. Options that are not set come from the OTEL_* variables. Nothing
 * is registered globally.
 * @throws when the packages are not installed
 */
export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const { settings, log } = options
  const [api, { detectResources, envDetector, resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/resources'),
  ])
  const failures = createFailureReporter(log)
  const quiet = (): void => undefined
  // The SDK reports failed exports only to its own logger.
  api.diag.setLogger(
    { error: failures.report, warn: failures.report, info: quiet, debug: quiet, verbose: quiet },
    { logLevel: api.DiagLogLevel.WARN, suppressOverrideMessage: true },
  )
  const { serviceName } = settings
  const resource = resourceFromAttributes({ 'service.name': options.serviceName, 'service.version': options.version })
    .merge(detectResources({ detectors: [envDetector] }))
    .merge(resourceFromAttributes(serviceName === undefined ? {} : { 'service.name': serviceName }))
  const target = (signal: string) => ({
    ...(settings.endpoint === undefined ? {} : { url: `${settings.endpoint.replace(/\/+$/, '')}/v1/${signal}` }),
    ...(Object.keys(settings.headers).length === 0 ? {} : { headers: settings.headers }),
  })
  const traces = settings.traces ? await startTraces() : undefined
  const metrics = settings.metrics ? await startMetrics() : undefined

  async function startTraces() {
    const [sdk, { OTLPTraceExporter }] = await Promise.all([
      import('@opentelemetry/sdk-trace-base'),
      import('@opentelemetry/exporter-trace-otlp-http'),
    ])
    const { sampling } = settings
    const provider = new sdk.BasicTracerProvider({
      resource,
      ...(sampling === undefined
        ? {}
        : { sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(sampling) }) }),
      spanProcessors: [new sdk.BatchSpanProcessor(new OTLPTraceExporter(target('traces')))],
    })
    return { tracer: tracerOf(api, provider.getTracer(SCOPE, options.version)), stop: () => provider.shutdown() }
  }

  async function startMetrics() {
    const [sdk, { OTLPMetricExporter }] = await Promise.all([
      import('@opentelemetry/sdk-metrics'),
      import('@opentelemetry/exporter-metrics-otlp-http'),
    ])
    const startTime = hrTime(Date.now())
    const producer: MetricProducer = {
      async collect() {
        const families = await options.registry.collect()
        const metrics = families.flatMap((family) => dataOf(api, sdk, family, startTime, hrTime(Date.now())) ?? [])
        const scope = { name: SCOPE, version: options.version }
        return { resourceMetrics: { resource, scopeMetrics: [{ scope, metrics }] }, errors: [] }
      },
    }
    const { intervalMs } = settings
    const reader = new sdk.PeriodicExportingMetricReader({
      exporter: new OTLPMetricExporter(target('metrics')),
      exportIntervalMillis: intervalMs,
      exportTimeoutMillis: Math.min(intervalMs, EXPORT_MS),
      metricProducers: [producer],
    })
    const provider = new sdk.MeterProvider({ resource, readers: [reader] })
    return { stop: () => provider.shutdown() }
  }

  return {
    tracer: traces?.tracer,
    async stop() {
      failures.beginShutdown()
      const parts = [traces, metrics].flatMap((one) => (one ? [sendOnce(one.stop)] : []))
      await Promise.all(parts.map((part) => part.catch((error: unknown) => failures.report(messageOf(error)))))
      failures.stop()
    },
  }
}

type Api = typeof import('@opentelemetry/api')

function tracerOf(api: Api, tracer: import('@opentelemetry/api').Tracer): Tracer {
  const active = new AsyncLocalStorage<Context>()
  const KINDS = {
    request: api.SpanKind.SERVER,
    call: api.SpanKind.INTERNAL,
    upstream: api.SpanKind.CLIENT,
    search: api.SpanKind.INTERNAL,
  }
  function begin(operation: Operation, given: TraceContext | undefined) {
    const parent = (given && contextOf(api, given)) ?? active.getStore() ?? api.ROOT_CONTEXT
    const span = tracer.startSpan(
      operation.name,
      { kind: KINDS[operation.kind], attributes: { ...operation.attributes } },
      parent,
    )
    return {
      context: api.trace.setSpan(parent, span),
      end() {
        // Some facts, such as the tool that was meant, are known only at the end.
        span.updateName(operation.name)
        span.setAttributes(operation.attributes)
        if (operation.error !== undefined) {
          span.setAttribute('error.type', operation.error)
          span.setStatus({ code: api.SpanStatusCode.ERROR })
        }
        span.end()
      },
    }
  }

  return {
    async run(operation, work, given) {
      const { context, end } = begin(operation, given)
      try {
        return await active.run(context, work)
      } finally {
        end()
      }
    },
    runSync(operation, work, given) {
      const { context, end } = begin(operation, given)
      try {
        return active.run(context, work)
      } finally {
        end()
      }
    },
    runInContext(given, work) {
      const parent = contextOf(api, given)
      return parent ? active.run(parent, work) : work()
    },
    context() {
      const span = active.getStore()
      const context = span && api.trace.getSpanContext(span)
      if (!context) return undefined
      const { traceId, spanId, traceFlags, traceState } = context
      const tracestate = traceState?.serialize()
      return {
        traceId,
        traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
        ...(tracestate ? { tracestate } : {}),
      }
    },
  }
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/
const MAX_STATE = 512

function contextOf(api: Api, { traceparent, tracestate }: TraceContext): Context | undefined {
  const [, traceId, spanId, flags] = (typeof traceparent === 'string' && TRACEPARENT.exec(traceparent)) || []
  if (traceId === undefined || spanId === undefined) return undefined
  const context = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags ?? '00', 16) & api.TraceFlags.SAMPLED,
    isRemote: true,
    ...(typeof tracestate === 'string' && tracestate.length <= MAX_STATE
      ? { traceState: api.createTraceState(tracestate) }
      : {}),
  }
  return api.isSpanContextValid(context) ? api.trace.setSpanContext(api.ROOT_CONTEXT, context) : undefined
}

/** Node's diagnostics channel for failed HTTP requests; the SDK does not report the cause while it retries. */
const FAILED_REQUEST = 'http.client.request.error'

/**
 * Sends what is left with one attempt: a missing collector will not appear within a second.
 * @throws when nothing was sent
 */
async function sendOnce(send: () => Promise<void>): Promise<void> {
  const here = new AsyncLocalStorage<true>()
  const failed = createDeferred<never>()
  const onError = (event: unknown): void => {
    const { error } = event as { readonly error: NodeJS.ErrnoException }
    // A host with several addresses has one error per address and no message of its own.
    if (here.getStore()) failed.reject(new Error(error.message || error.code))
  }
  subscribe(FAILED_REQUEST, onError)
  try {
    await waitAtMost(LAST_MS, Promise.race([here.run(true, send), failed.promise]), () => {
      throw new Error(`the collector did not answer within ${LAST_MS / 1_000} s`)
    })
  } finally {
    unsubscribe(FAILED_REQUEST, onError)
  }
}

/** Reports export failures to the operator, each message once. */
function createFailureReporter(log: Log) {
  let before = ''
  let level: 'warn' | 'error' | undefined = 'warn'
  return {
    report(message: string, ...more: readonly unknown[]): void {
      const text = [message, ...more].map(String).join(' ').slice(0, 500)
      if (text === before || level === undefined) return
      before = text
      log[level]('cannot send telemetry', { error: text })
    },
    /** From now on, data that cannot be sent is dropped. */
    beginShutdown() {
      before = ''
      level = 'error'
    },
    stop() {
      level = undefined
    },
  }
}

const hrTime = (ms: number): HrTime => [Math.floor(ms / 1_000), (ms % 1_000) * 1_000_000]

function dataOf(
  api: Api,
  sdk: typeof import('@opentelemetry/sdk-metrics'),
  { name, help, unit, type, points }: MetricFamily,
  startTime: HrTime,
  endTime: HrTime,
): MetricData | undefined {
  if (points.length === 0) return undefined
  const common = {
    descriptor: { name, description: help, unit: unit || '1', valueType: api.ValueType.DOUBLE },
    aggregationTemporality: sdk.AggregationTemporality.CUMULATIVE,
  }
  const at = { startTime, endTime }
  if (type === 'histogram') {
    const dataPoints = points.map(({ labels, value, buckets = { bounds: [], counts: [] } }) => {
      const { bounds, counts } = buckets
      const count = counts.reduce((sum, more) => sum + more, 0)
      const histogram = { buckets: { boundaries: [...bounds], counts: [...counts] }, sum: value, count }
      return { ...at, attributes: labels, value: histogram }
    })
    return { ...common, dataPointType: sdk.DataPointType.HISTOGRAM, dataPoints }
  }
  const dataPoints = points.map(({ labels, value }) => ({ ...at, attributes: labels, value }))
  return type === 'counter'
    ? { ...common, dataPointType: sdk.DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...common, dataPointType: sdk.DataPointType.GAUGE, dataPoints }
}
