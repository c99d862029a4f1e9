import { AsyncLocalStorage } from 'node:async_hooks'
import { monotonicMs } from '../core/clock.ts'
import { isPegboardError } from '../core/errors.ts'
import { isProtocolFailure } from '../core/failure.ts'
import type { Observer, Operation, TraceContext } from '../core/observer.ts'
import type { Registry } from './registry.ts'

/** What makes traces of operations. */
export interface Tracer {
  run<T>(operation: Operation, work: () => Promise<T>, parent?: TraceContext): Promise<T>
  note<T>(operation: Operation, work: () => T, parent?: TraceContext): T
  within<T>(parent: TraceContext, work: () => T): T
  /** Where the operation under way belongs. */
  context(): { readonly traceId: string; readonly traceparent: string; readonly tracestate?: string } | undefined
}

export interface ObserverOptions {
  readonly registry: Registry
  /** Loads what makes traces; `undefined` where none are wanted, or it cannot be had. Asked for once. */
  readonly tracer?: () => Promise<Tracer | undefined>
  /** Servers are told where a request belongs. */
  readonly propagate: boolean
}

/** Counts what is done, and makes traces of it. */
export function createObserver({ registry, tracer: load, propagate }: ObserverOptions): Observer {
  const calls = registry.counter('pegboard.calls', 'Calls of tools, by what became of them.', ['tool', 'outcome'])
  const callTime = registry.histogram('pegboard.call.duration', 'How long calls of tools took.', ['tool'])
  const requests = registry.histogram('mcp.server.operation.duration', 'How long requests of clients took.', [
    'mcp.method.name',
    'error.type',
  ])
  const upstream = registry.histogram('mcp.client.operation.duration', 'How long requests to servers took.', [
    'pegboard.server',
    'mcp.method.name',
    'error.type',
  ])
  const searches = registry.histogram('pegboard.search.duration', 'How long searches for tools took.', ['error.type'])

  function count({ kind, attributes, error = '' }: Operation, ms: number): void {
    const seconds = ms / 1_000
    const method = String(attributes['mcp.method.name'] ?? '')
    if (kind === 'call') {
      // What is no tool has a name that a client wrote.
      const tool = String(attributes['gen_ai.tool.name'] ?? '')
      calls.add([tool, error === '' ? 'ok' : error])
      callTime.record([tool], seconds)
    } else if (kind === 'request') requests.record([method, error], seconds)
    else if (kind === 'upstream') upstream.record([String(attributes['pegboard.server'] ?? ''), method, error], seconds)
    else searches.record([error], seconds)
  }

  async function counted<T>(operation: Operation, work: () => Promise<T>): Promise<T> {
    const beganAt = monotonicMs()
    try {
      return await work()
    } catch (error) {
      if (operation.error === undefined) operation.error = codeOf(error)
      throw error
    } finally {
      count(operation, monotonicMs() - beganAt)
    }
  }

  let tracer: Tracer | undefined
  let loading: Promise<void> | undefined
  let isLoaded = load === undefined
  const loaded = (): Promise<void> => {
    loading ??= (load ?? (async () => undefined))().then((made) => {
      tracer = made
      isLoaded = true
    })
    return loading
  }

  // What comes before traces can be made belongs somewhere, too.
  const early = load && new AsyncLocalStorage<TraceContext>()
  const placeOf = (parent: TraceContext | undefined): TraceContext | undefined =>
    parent ?? (tracer?.context() ? undefined : early?.getStore())

  return {
    async run(operation, work, parent) {
      if (!isLoaded) await loaded()
      const inner = () => counted(operation, work)
      return tracer ? tracer.run(operation, inner, placeOf(parent)) : inner()
    },
    note(operation, work, parent) {
      const inner = () => {
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
      return tracer ? tracer.note(operation, inner, placeOf(parent)) : inner()
    },
    within(parent, work) {
      if (tracer) return tracer.within(parent, work)
      return early && !isLoaded ? early.run(parent, work) : work()
    },
    carried(meta) {
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
