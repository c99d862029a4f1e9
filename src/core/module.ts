import type { CallContext, Caller, Services } from './context.ts'
import type { Log } from './log.ts'
import type { JsonSchema, StandardSchema } from './schema.ts'
import type { Effect, Example, NameOf } from './tool.ts'

/** What `run` gets: what the schema gives out. A raw JSON Schema tells the compiler nothing but that it is an object. */
type Infer<S> = S extends { readonly '~standard': { readonly types?: infer Types } }
  ? NonNullable<Types> extends { readonly output: infer Output }
    ? Output
    : never
  : Record<string, unknown>
type AnySchema = StandardSchema<unknown, unknown> | JsonSchema

/** What `available` and `assemble` may look at. */
export interface ToolView<Config> {
  readonly config: Config
  readonly caller: Caller
  readonly services: Services
  /** The wire name of another tool for this caller, or undefined. */
  readonly nameOf: NameOf
}

export interface ToolDraft {
  readonly description: string
  readonly input: AnySchema
}

/** One tool as a module author writes it. */
export interface ToolDef<Config = unknown, Input = AnySchema> {
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
  /** Not listed or searched, and no client can call it; only set-up steps may. */
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
  readonly config?: StandardSchema<unknown, Config> | JsonSchema
  // biome-ignore lint/suspicious/noExplicitAny: each tool has its own input type; it is checked where the tool is written
  readonly tools: Readonly<Record<string, ToolDef<Config, any>>>
  /** Groups of words that mean the same here, in any language, for search: `[['ticket', 'issue', 'bug']]`. */
  readonly synonyms?: readonly (readonly string[])[]
  /** Old tool name to new: calls with the old one keep working. */
  readonly renamed?: Readonly<Record<string, string>>
  /** Replaces a bundled module of the same name. */
  readonly override?: boolean
  /** Slow work goes here, not at import. Bounded by `loader.startTimeoutMs`. */
  start?(ctx: StartContext<Config>): void | Promise<void>
  stop?(): void | Promise<void>
}

const BRAND = Symbol.for('pegboard.module')

// Unconstrained: with a bound, one tool without an input would cost all the others their types.
type ToolsOf<Config, Inputs> = { readonly [K in keyof Inputs]: ToolDef<Config, Inputs[K]> }

/** Types a module: inside each tool, `input` and `config` are inferred from their schemas. Returns what it was given. */
export function defineModule<Config, Inputs>(
  module: Omit<ToolModule<Config>, 'tools'> & { readonly tools: ToolsOf<Config, Inputs> },
): ToolModule<Config> {
  return Object.assign({ [BRAND]: true }, module) as unknown as ToolModule<Config>
}
