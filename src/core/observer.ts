/** What the conventions of OpenTelemetry call every run of a tool, whatever it is called here: `gen_ai.operation.name`. */
export const RUN_OF_A_TOOL = 'execute_tool'

/** Something that is done for somebody and takes a while: what is told of it, by whoever does it. */
export interface Operation {
  /** A request of a client, the run of a tool, a request to a server behind us, or a search. */
  readonly kind: 'request' | 'call' | 'upstream' | 'search'
  /** Of few values: never with anything that a client wrote. */
  name: string
  /** The same; nothing of what arguments and results say. */
  readonly attributes: Record<string, string | number | boolean>
  /** What became of it, where it did not go well: a code. */
  error?: string
}

/** Where a request belongs in a trace, as W3C Trace Context writes it. */
export interface TraceContext {
  readonly traceparent?: unknown
  readonly tracestate?: unknown
}

/** Told of all that is done, where the operator wants that; absent where nobody does. */
export interface Observer {
  /** Does the work as an operation, within the one that is under way. @param parent where a client says that it belongs */
  run<T>(operation: Operation, work: () => Promise<T>, parent?: TraceContext): Promise<T>
  /** The same of what is over at once, and waits for nothing: the first of it may come before traces can be made. */
  note<T>(operation: Operation, work: () => T, parent?: TraceContext): T
  /** All that is done by `work` belongs there, unless it says otherwise itself. */
  within<T>(parent: TraceContext, work: () => T): T
  /** The `_meta` of a request that is sent on: with where the operation under way belongs. */
  carried(meta: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>
  /** Of the operation under way. */
  readonly traceId: string | undefined
}
