import type { CallContext, Caller, Origin, Services } from './caller.ts'
import type { Log } from './log.ts'
import type { Profile } from './profile.ts'
import type { JsonSchema, StandardSchema } from './schema.ts'
import type { Effect, Example, NameOf, ToolTraits } from './tool.ts'

/** The value that `run` receives: the output of the schema. For a raw JSON Schema it is only known to be an object. */
type Infer<S> = S extends { readonly '~standard': { readonly types?: infer Types } }
  ? NonNullable<Types> extends { readonly output: infer Output }
    ? Output
    : never
  : Record<string, unknown>
/** The value that `run` may return: the input of the schema, because results are checked and sent unchanged. */
type RunReturn<S> = S extends { readonly '~standard': { readonly types?: infer Types } }
  ? NonNullable<Types> extends { readonly input: infer Value }
    ? DeepReadonly<Value>
    : unknown
  : unknown
/** Accepts read-only lists and objects, too. */
type DeepReadonly<Value> = Value extends readonly unknown[] | Readonly<Record<never, unknown>>
  ? { readonly [K in keyof Value]: DeepReadonly<Value[K]> }
  : Value
type AnySchema = StandardSchema<unknown, unknown> | JsonSchema

/** The argument of `available` and `assemble`. */
export interface ToolView<Config> {
  /** The options of the module, with the changes of the caller's profile. */
  readonly config: Config
  readonly caller: Caller
  readonly profile: Profile
  readonly services: Services
  /** Returns the wire name of another tool; `undefined` if the caller does not see it. */
  readonly nameOf: NameOf
}

/** A text that a module adds to instructions and system prompts. */
export interface PromptSection {
  /**
   * Lower numbers come first, and are omitted last if there is too little room. Below 0: before everything else.
   * Otherwise: between the tools and the user's prompt.
   */
  readonly priority: number
  readonly text: string
}

/** A completed set-up step, for `promptSection`: `{ action: 'connect', value: { name: 'default' } }`. */
export interface SetupStep {
  /** Name of the tool without the module. */
  readonly action: string
  /** The value that the tool returned. */
  readonly value: unknown
}

/** The argument of `promptSection`. */
export interface SectionView<Config> extends ToolView<Config> {
  /** The set-up steps of the configuration that succeeded. */
  readonly setup: readonly SetupStep[]
}

/** A resource whose content is the result of a tool of the module. The tool must only read. */
export interface ModuleResource {
  readonly name: string
  readonly title?: string
  readonly description: string
  /** Default `application/json`. Text results are sent unchanged. */
  readonly mimeType?: string
  /** Name of the tool in this module. Callers who see the tool see the resource. */
  readonly tool: string
  /** Arguments of the call; default none. */
  readonly input?: Readonly<Record<string, unknown>>
}

/** The argument of `notices`. */
export interface NoticeView<Config> extends Omit<ToolView<Config>, 'nameOf'> {
  readonly origin: Origin
}

/** What `assemble` may change. */
export interface ToolDraft {
  readonly description: string
  readonly input: AnySchema
}

/** What models and search learn about a tool. */
interface ToolText<Input, Output> {
  /** Title for people; default made of the name. */
  readonly title?: string
  /** What the tool does, when to use it and when not: all that the model knows about it. At least 20 characters. */
  readonly description: string
  /** Arguments: an object schema of zod or another Standard Schema library, or raw JSON Schema; default none. */
  readonly input?: Input
  /** The result of `run`: an object schema as for `input`. Results that do not match fail the call. Default: not declared. */
  readonly output?: Output
  /** Other words for it, in any language. An alias that no other tool has can be called, too. */
  readonly aliases?: readonly string[]
  readonly tags?: readonly string[]
  readonly examples?: readonly Example[]
  /** Names of parameters that are accepted and checked, but not shown to models. */
  readonly hidden?: readonly string[]
}

/** What calls of a tool do and receive. */
interface ToolBehavior {
  /** The worst that the tool does. There is no default, so that a forgotten line cannot look safe. */
  readonly effect: Effect
  /** True if a second call with the same arguments changes nothing more; default true for reads, otherwise false. */
  readonly idempotent?: boolean
  /** True if it reaches beyond this machine; default false. */
  readonly openWorld?: boolean
  /** What it changes, in words for people; default none. */
  readonly sideEffects?: readonly string[]
  /** True if `run` receives its context although it declares one parameter; default false. */
  readonly context?: boolean
}

/** Who sees a tool. */
interface ToolConditions<Config> {
  /** Returns `true`, or the reason why it cannot be used now; name the setting. Pure and synchronous. */
  available?(view: ToolView<Config>): true | string
  /**
   * Returns a narrower description and input for this caller, or `null` to hide the tool. Pure and synchronous. Keep
   * variants in constants: they are cached by identity.
   */
  assemble?(view: ToolView<Config>, draft: ToolDraft): ToolDraft | null
}

/**
 * A tool as a module author writes it, in `tools` of `defineModule`.
 *
 * @example
 * ```ts
 * forecast: {
 *   description: 'Weather forecast of a city for the next days. Not for past weather.',
 *   input: z.object({ city: z.string() }),
 *   effect: 'read',
 *   openWorld: true,
 *   available: ({ config }) => config.key !== undefined || 'set modules.weather.config.key',
 *   run: async ({ city }, ctx) => (await ctx.fetch(`https://weather.example/${city}?key=${ctx.config.key}`)).json(),
 * }
 * ```
 */
export interface ToolDef<Config = unknown, Input = AnySchema, Output = AnySchema>
  extends ToolText<Input, Output>,
    ToolBehavior,
    ToolTraits,
    ToolConditions<Config> {
  /**
   * Runs the tool. The result is a text, any JSON value, or MCP content blocks.
   * @throws ToolError for failures that the model can correct
   */
  run(input: Infer<Input>, ctx: CallContext<Config>): RunReturn<Output> | Promise<RunReturn<Output>>
}

/** The argument of `start`. */
export interface StartContext<Config> {
  readonly config: Config
  readonly log: Log
  /** Aborts when the module is stopped or started again. */
  readonly signal: AbortSignal
  /** The services of a local caller in the default profile. */
  readonly services: Services
  /** Call it when the answers of `available` or `assemble` have changed. */
  changed(): void
}

/** A module: tools with common options and a common life cycle. Create it with `defineModule`. */
export interface ToolModule<Config = unknown> {
  /** `^[a-z][a-z0-9_-]*$`. The category of its tools, and the prefix of their names. */
  readonly name: string
  readonly description: string
  /** Schema of `modules.<name>.config`; default takes no options. */
  readonly config?: StandardSchema<unknown, Config> | JsonSchema
  /** By name: `{ forecast: { … } }` in the module `weather` is the tool `weather.forecast`. */
  // biome-ignore lint/suspicious/noExplicitAny: each tool has its own input type; it is checked where the tool is written
  readonly tools: Readonly<Record<string, ToolDef<Config, any, any>>>
  /** Default of `readOnly` for its tools; default false. */
  readonly readOnly?: boolean
  /** Default of `writes` for its tools; default none. */
  readonly writes?: readonly string[]
  /** Resources, by URI: `{ 'todo://wip': { name: 'open', description: '…', tool: 'list' } }`. */
  readonly resources?: Readonly<Record<string, ModuleResource>>
  /** Groups of words that mean the same here, in any language, for search: `[['ticket', 'issue', 'bug']]`. */
  readonly synonyms?: readonly (readonly string[])[]
  /** New tool names by old ones. Calls with an old name keep working. */
  readonly renamed?: Readonly<Record<string, string>>
  /**
   * Returns `true`, or the setting that enables the module. While it is not enabled, clients do not learn about its
   * tools. `config` contains the changes of the caller's profile. Pure and synchronous.
   */
  enabled?(view: { readonly config: Config; readonly profile: Profile }): true | string
  /** True if it replaces a bundled module of the same name; default false. */
  readonly override?: boolean
  /**
   * Returns a text for the instructions and system prompts of callers who see at least one of its tools; `undefined`
   * adds nothing. Use `nameOf` to mention other tools. Pure and synchronous.
   */
  promptSection?(view: SectionView<Config>): PromptSection | undefined
  /**
   * Returns lines that the caller receives with the next result, each line once. Called after every call of a caller
   * who sees at least one of its tools, so it must be fast. Limit: one second.
   */
  notices?(view: NoticeView<Config>): readonly string[] | Promise<readonly string[]>
  /** Slow preparation, which must not happen during import. Limit: `loader.startTimeoutMs`. */
  start?(ctx: StartContext<Config>): void | Promise<void>
  /**
   * Releases what `start` and calls have created. After a change of the configuration, `start` runs again while earlier
   * calls are still running. `stop` runs once, when the last start ends; the signal of each start aborts when that
   * start ends.
   */
  stop?(): void | Promise<void>
}

const BRAND = Symbol.for('pegboard.module')

// Unconstrained, because with a bound one tool without an input would make all others lose their types.
type ToolsOf<Config, Inputs> = { readonly [K in keyof Inputs]: ToolDef<Config, Inputs[K]> }
// Separate from the inputs for the same reason. `ToolsOf` types the parameters of `run`; `never` adds nothing to them.
type OutputsOf<Outputs> = {
  readonly [K in keyof Outputs]: {
    readonly output?: Outputs[K]
    run(input: never, ctx: never): RunReturn<Outputs[K]> | Promise<RunReturn<Outputs[K]>>
  }
}

/**
 * Types a module: in each tool, `input` and `ctx.config` are inferred from their schemas, and `run` must return what
 * `output` declares. Returns the same module, marked as one.
 *
 * @example
 * ```ts
 * import { defineModule, z } from 'pegboard'
 *
 * export default defineModule({
 *   name: 'hello',
 *   description: 'Greets people.',
 *   config: z.object({ greeting: z.string().default('Hello') }),
 *   tools: {
 *     say_hello: {
 *       description: 'Greets a person by name, in the configured language.',
 *       effect: 'read',
 *       input: z.object({ name: z.string() }),
 *       run: ({ name }, ctx) => `${ctx.config.greeting}, ${name}!`,
 *     },
 *   },
 * })
 * ```
 */
export function defineModule<Config, Inputs, Outputs>(
  module: Omit<ToolModule<Config>, 'tools'> & { readonly tools: ToolsOf<Config, Inputs> & OutputsOf<Outputs> },
): ToolModule<Config> {
  return Object.assign({ [BRAND]: true }, module) as unknown as ToolModule<Config>
}
