import type { CallContext, Caller } from './context.ts'
import type { Log } from './log.ts'
import type { JsonSchema, StandardSchema } from './schema.ts'
import type { Effect, Example, NameOf } from './tool.ts'

type Infer<S> = S extends StandardSchema<infer _Input, infer Output> ? Output : Record<string, unknown>
type AnySchema = StandardSchema<never, unknown> | JsonSchema

/** What `available` and `assemble` may look at. */
export interface ToolView<Config> {
  readonly config: Config
  readonly caller: Caller
  /** The wire name of another tool for this caller, or undefined. */
  readonly nameOf: NameOf
}

export interface ToolDraft {
  readonly description: string
  readonly input: AnySchema
}

/** One tool as a module author writes it. */
export interface ToolDef<Config = unknown, Input extends AnySchema = AnySchema> {
  /** Said to people; default is made of the name. */
  readonly title?: string
  /** At least 20 characters: what it does, when to use it, when not. The model has nothing else to go by. */
  readonly description: string
  /** zod (or any Standard Schema) object, or raw JSON Schema; default takes no arguments. */
  readonly input?: Input
  readonly output?: AnySchema
  /** The worst it does. Required: a forgotten flag must not look safe. */
  readonly effect: Effect
  /** Calling twice is the same as once; default true for reads, false otherwise. */
  readonly idempotent?: boolean
  /** Reaches beyond this machine; default false. */
  readonly openWorld?: boolean
  readonly sideEffects?: readonly string[]
  /** Other words people use for it, in any language; also callable names when unique. */
  readonly aliases?: readonly string[]
  readonly tags?: readonly string[]
  readonly examples?: readonly Example[]
  /** Parameters accepted and checked but not shown to the model. */
  readonly hidden?: readonly string[]
  /** Not listed or searched; only other modules and set-up steps may run it. */
  readonly internal?: boolean
  /** Give `run` its context even when it declares one parameter. */
  readonly context?: boolean
  /** `true`, or the reason it cannot be used now, naming the setting. Pure and synchronous. */
  available?(view: ToolView<Config>): true | string
  /** A narrower description and input for this caller, or null to hide. Hoist variants to constants: they are cached by identity. */
  assemble?(view: ToolView<Config>, draft: ToolDraft): ToolDraft | null
  run(input: Infer<Input>, ctx: CallContext<Config>): unknown
}

export interface StartContext<Config> {
  readonly config: Config
  readonly log: Log
  readonly signal: AbortSignal
  /** Say that `available` or `assemble` would answer differently now. */
  changed(): void
}

export interface ToolModule<Config = unknown> {
  /** `^[a-z][a-z0-9_-]*$`; the category and the prefix of its tools. */
  readonly name: string
  readonly description: string
  readonly config?: StandardSchema<never, Config> | JsonSchema
  // biome-ignore lint/suspicious/noExplicitAny: each tool has its own input type; it is checked where the tool is written
  readonly tools: Readonly<Record<string, ToolDef<Config, any>>>
  /** Old tool name to new: calls with the old one keep working. */
  readonly renamed?: Readonly<Record<string, string>>
  /** Replaces a bundled module of the same name. */
  readonly override?: boolean
  /** Slow work goes here, not at import. Bounded by `loader.startTimeoutMs`. */
  start?(ctx: StartContext<Config>): void | Promise<void>
  stop?(): void | Promise<void>
}

const BRAND = Symbol.for('pegboard.module')

type ToolsOf<Config, Inputs extends Record<string, AnySchema>> = {
  readonly [K in keyof Inputs]: ToolDef<Config, Inputs[K]>
}

/** Types a module: inside each tool, `input` and `config` are inferred from their schemas. Returns what it was given. */
export function defineModule<Config, Inputs extends Record<string, AnySchema>>(
  module: Omit<ToolModule<Config>, 'tools'> & { readonly tools: ToolsOf<Config, Inputs> },
): ToolModule<Config> {
  return Object.assign({ [BRAND]: true }, module) as unknown as ToolModule<Config>
}
