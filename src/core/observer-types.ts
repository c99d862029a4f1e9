/** The OpenTelemetry attribute `gen_ai.operation.name` of a tool run. */
export const RUN_OF_A_TOOL = 'execute_tool'

/** A unit of work that is traced and counted. */
export interface Operation {
  /** A client's request, a tool run, a request to an upstream server, or a search. */
  readonly kind: 'request' | 'call' | 'upstream' | 'search'
  /** One of a few fixed values; never contains client input. */
  name: string
  /** Few fixed values, like `kind`; nothing about the content of arguments and results. */
  readonly attributes: Record<string, string | number | boolean>
  /** Error code, if it failed. */
  error?: string
}

/** Trace context in W3C format. */
export interface TraceContext {
  readonly traceparent?: unknown
  readonly tracestate?: unknown
}

/** Records operations. Absent if the operator has not enabled telemetry. */
export interface Observer {
  /** Runs work as an operation within the current one. @param parent trace context sent by the client */
  run<T>(operation: Operation, work: () => Promise<T>, parent?: TraceContext): Promise<T>
  /** The same as `run` for synchronous work, which may run before tracing is loaded. */
  runSync<T>(operation: Operation, work: () => T, parent?: TraceContext): T
  /** Makes `parent` the trace context of everything that `work` does. */
  runInContext<T>(parent: TraceContext, work: () => T): T
  /** Adds the current trace context to the `_meta` of an outgoing request. */
  addTraceContext(meta: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>
  readonly traceId: string | undefined
}
