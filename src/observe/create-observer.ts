import { AsyncLocalStorage } from 'node:async_hooks'
import { monotonicMs } from '../core/clock.ts'
import { isPegboardError } from '../core/errors.ts'
import type { Observer, Operation, TraceContext } from '../core/observer-types.ts'
import { once } from '../core/once.ts'
import { isProtocolFailure } from '../core/protocol-failure.ts'
import type { MetricRegistry } from './metric-registry.ts'

export interface Tracer extends Pick<Observer, 'run' | 'runSync' | 'runInContext'> {
  /** Trace context of the current operation. */
  context(): { readonly traceId: string; readonly traceparent: string; readonly tracestate?: string } | undefined
}

export interface ObserverOptions {
  readonly registry: MetricRegistry
  /** Loads the tracer; `undefined` if tracing is off or its packages are missing. Called once. */
  readonly tracer?: () => Promise<Tracer | undefined>
  /** True if upstream servers get the trace context. */
  readonly propagate: boolean
}

/** Counts operations in the registry and traces them. */
export function createObserver({ registry, tracer: load, propagate }: ObserverOptions): Observer {
  const calls = registry.counter('pegboard.calls', 'Tool calls by outcome.', ['tool', 'outcome'])
  const failures = registry.counter('pegboard.failures', 'Failed tool calls by class of failure.', ['class'])
  const callTime = registry.histogram('pegboard.call.duration', 'Duration of tool calls.', ['tool'])
  const requests = registry.histogram('mcp.server.operation.duration', 'Duration of client requests.', [
    'mcp.method.name',
    'error.type',
  ])
  const upstream = registry.histogram('mcp.client.operation.duration', 'Duration of requests to upstream servers.', [
    'pegboard.server',
    'mcp.method.name',
    'error.type',
  ])
  const searches = registry.histogram('pegboard.search.duration', 'Duration of tool searches.', ['error.type'])

  function count({ kind, attributes, error = '' }: Operation, ms: number): void {
    const seconds = ms / 1_000
    const method = String(attributes['mcp.method.name'] ?? '')
    if (kind === 'call') {
      // A name that is not a tool was written by a client, so it is not used as a label.
      const tool = String(attributes['gen_ai.tool.name'] ?? '')
      calls.add([tool, error === '' ? 'ok' : error])
      callTime.record([tool], seconds)
      const failure = attributes['pegboard.failure.class']
      if (failure !== undefined) failures.add([String(failure)])
    } else if (kind === 'request') requests.record([method, error], seconds)
    else if (kind === 'upstream') upstream.record([String(attributes['pegboard.server'] ?? ''), method, error], seconds)
    else searches.record([error], seconds)
  }

  let tracer: Tracer | undefined
  let isLoaded = load === undefined
  const loadTracer = once(async () => {
    tracer = await load?.()
    isLoaded = true
  })

  // Operations that begin before the tracer is loaded need a trace context too.
  const early = load && new AsyncLocalStorage<TraceContext>()
  const parentOf = (given: TraceContext | undefined): TraceContext | undefined =>
    given ?? (tracer?.context() ? undefined : early?.getStore())

  return {
    async run(operation, work, parent) {
      if (!isLoaded) await loadTracer()
      const counted = async () => {
        const beganAt = monotonicMs()
        try {
          return await work()
        } catch (error) {
          operation.error ??= codeOf(error)
          throw error
        } finally {
          count(operation, monotonicMs() - beganAt)
        }
      }
      return tracer ? tracer.run(operation, counted, parentOf(parent)) : counted()
    },
    runSync(operation, work, parent) {
      const counted = () => {
        const beganAt = monotonicMs()
        try {
          return work()
        } catch (error) {
          operation.error ??= codeOf(error)
          throw error
        } finally {
          count(operation, monotonicMs() - beganAt)
        }
      }
      return tracer ? tracer.runSync(operation, counted, parentOf(parent)) : counted()
    },
    runInContext(parent, work) {
      if (tracer) return tracer.runInContext(parent, work)
      return early && !isLoaded ? early.run(parent, work) : work()
    },
    addTraceContext(meta) {
      if (!load) return meta
      const context = propagate ? tracer?.context() : undefined
      const { traceparent: _theirs, tracestate: _state, ...rest } = meta
      if (!context) return propagate ? meta : rest
      const { traceparent, tracestate } = context
      return { ...rest, traceparent, ...(tracestate === undefined ? {} : { tracestate }) }
    },
    get traceId() {
      return tracer?.context()?.traceId
    },
  }
}

function codeOf(error: unknown): string {
  if (isPegboardError(error)) return error.code
  return isProtocolFailure(error) ? String(error.code) : 'E_INTERNAL'
}
