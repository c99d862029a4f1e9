import type { CallContext, Caller, Origin, Services } from './context.ts'
import type { Log } from './log.ts'
import type { Profile } from './profile.ts'
import type { JsonSchema, StandardSchema } from './schema.ts'
import type { Effect, Example, NameOf, Needs } from './tool.ts'

/** What `run` gets: what the schema gives out. A raw JSON Schema tells the compiler nothing but that it is an object. */
type Infer<S> = S extends { readonly '~standard': { readonly types?: infer Types } }
  ? NonNullable<Types> extends { readonly output: infer Output }
    ? Output
    : never
  : Record<string, unknown>
/** What `run` may return: what the schema takes in, since results are checked and sent as they are. */
type Returned<S> = S extends { readonly '~standard': { readonly types?: infer Types } }
  ? NonNullable<Types> extends { readonly input: infer Value }
    ? Unchanged<Value>
    : unknown
  : unknown
/** A list or an object that nobody may change is as good as one of the same shape. */
type Unchanged<Value> = Value extends readonly unknown[] | Readonly<Record<never, unknown>>
  ? { readonly [K in keyof Value]: Unchanged<Value[K]> }
  : Value
type AnySchema = StandardSchema<unknown, unknown> | JsonSchema

/** What `available` and `assemble` may look at. */
export interface ToolView<Config> {
  /** The module's options, with what the caller's profile changes of them. */
  readonly config: Config
  readonly caller: Caller
  readonly profile: Profile
  readonly services: Services
  /** The wire name of another tool for this caller, or undefined. */
  readonly nameOf: NameOf
}

/** What a module says to the model beside its tools. */
export interface PromptSection {
  /**
   * Lower comes earlier, and is left out later where there is too little room; below 0 comes before everything else, the
   * rest between the tools and the user's prompt.
   */
  readonly priority: number
  readonly text: string
}

/** A set-up step that was made, for `promptSection`: `{ action: 'connect', value: { name: 'default' } }`. */
export interface SetupStep {
  /** Without the module. */
  readonly action: string
  /** What it returned. */
  readonly value: unknown
}

/** What `promptSection` may look at. */
export interface SectionView<Config> extends ToolView<Config> {
  readonly setup: readonly SetupStep[]
}

/** Something a client may read without calling anything: what a tool of the module, one that only reads, answers. */
export interface ModuleResource {
  readonly name: string
  readonly title?: string
  readonly description: string
  /** Default `application/json`; what the tool answers as text is handed on as it is. */
  readonly mimeType?: string
  /** Who may call it may read the resource, and nobody else knows of it. */
  readonly tool: string
  readonly input?: Readonly<Record<string, unknown>>
}

/** Whom a module may have something to tell. */
export interface NoticeView<Config> extends Omit<ToolView<Config>, 'nameOf'> {
  readonly origin: Origin
}

export interface ToolDraft {
  readonly description: string
  readonly input: AnySchema
}

/** One tool as a module author writes it. */
export interface ToolDef<Config = unknown, Input = AnySchema, Output = AnySchema> {
  /** Said to people; default is made of the name. */
  readonly title?: string
  /** At least 20 characters: what it does, when to use it, when not. The model has nothing else to go by. */
  readonly description: string
  /** zod (or any Standard Schema) object, or raw JSON Schema; default takes no arguments. */
  readonly input?: Input
  /** What `run` returns, as a zod object or raw JSON Schema; default says nothing of it. */
  readonly output?: Output
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
  /** Not listed or searched, and no client can call it; only set-up steps and modules may. */
  readonly internal?: boolean
  /**
   * Changes nothing: what it is given cannot be changed through, services only read, and what the person wrote is left out.
   * Default is the module's. Its `effect` is then `read`, unless it says in `writes` what it writes to.
   */
  readonly readOnly?: boolean
  /** Services that it writes to although it is read-only: `['kv']`. Default is the module's. */
  readonly writes?: readonly string[]
  /** Gets to see what the person wrote although it is read-only. */
  readonly needsUserInput?: boolean
  /**
   * Parts of its result that are somebody else's data, as dotted paths (`body`, `rows`, `pages.*.text`): fields in them may
   * be called what they like. Everywhere else a field that looks like a credential fails the call or has its value replaced.
   */
  readonly opaque?: readonly string[]
  /** It takes long: clients that know tasks get one. `required`: other clients of the newest protocol cannot call it. */
  readonly task?: 'optional' | 'required'
  /** It becomes a task only when it calls `ctx.background()`, having asked what it needs to know. */
  readonly asksFirst?: boolean
  /** Never put in the background by itself (`execution.autoBackgroundAfterMs`), because what it does to its context would be lost. */
  readonly noBackground?: boolean
  /** To be called again and again with the same arguments, as when something is waited for: no warning (`execution.repeatWarning`). */
  readonly allowRepeat?: boolean
  /** Whoever calls it by its bare name while `enabled` of its module says no is told that it is disabled. */
  readonly toldWhenOff?: boolean
  /** Give `run` its context even when it declares one parameter. */
  readonly context?: boolean
  /** What must be so for it to be there. */
  readonly needs?: Needs
  /** What it does for prompts and profiles, whoever does it: `url_fetcher`, `web_search`. A profile's own server may stand in. */
  readonly provides?: string
  /** Offered only when a message asks for it, where the profile wants that: the name of the intent. */
  readonly intent?: string
  /** `true`, or the reason it cannot be used now, naming the setting. Pure and synchronous. */
  available?(view: ToolView<Config>): true | string
  /** A narrower description and input for this caller, or null to hide. Hoist variants to constants: they are cached by identity. */
  assemble?(view: ToolView<Config>, draft: ToolDraft): ToolDraft | null
  run(input: Infer<Input>, ctx: CallContext<Config>): Returned<Output> | Promise<Returned<Output>>
}

export interface StartContext<Config> {
  readonly config: Config
  readonly log: Log
  readonly signal: AbortSignal
  /** As for a local caller of the default profile. */
  readonly services: Services
  /** Say that `available` or `assemble` would answer differently now. */
  changed(): void
}

export interface ToolModule<Config = unknown> {
  /** `^[a-z][a-z0-9_-]*$`; the category and the prefix of its tools. */
  readonly name: string
  readonly description: string
  readonly config?: StandardSchema<unknown, Config> | JsonSchema
  // biome-ignore lint/suspicious/noExplicitAny: each tool has its own input type; it is checked where the tool is written
  readonly tools: Readonly<Record<string, ToolDef<Config, any, any>>>
  /** All its tools change nothing, unless they say otherwise. */
  readonly readOnly?: boolean
  readonly writes?: readonly string[]
  /** What clients may read beside its tools, by URI: `{ 'todo://wip': { name: 'open', description: '…', tool: 'list' } }`. */
  readonly resources?: Readonly<Record<string, ModuleResource>>
  /** Groups of words that mean the same here, in any language, for search: `[['ticket', 'issue', 'bug']]`. */
  readonly synonyms?: readonly (readonly string[])[]
  /** Old tool name to new: calls with the old one keep working. */
  readonly renamed?: Readonly<Record<string, string>>
  /**
   * `true`, or what the operator sets to switch it on: until then its tools look to clients as if they did not exist. With
   * what the caller's profile changes. Pure and synchronous.
   */
  enabled?(view: { readonly config: Config; readonly profile: Profile }): true | string
  /** Replaces a bundled module of the same name. */
  readonly override?: boolean
  /**
   * Something for the instructions and system prompts of callers who see at least one of its tools, such as what its
   * set-up steps opened; nothing to say nothing. Other tools are named by `nameOf`. Pure and synchronous.
   */
  promptSection?(view: SectionView<Config>): PromptSection | undefined
  /**
   * Lines that this caller is to be told beside the result of whatever it calls next, each once: asked after every call of who sees
   * at least one of its tools, so it must be quick.
   */
  notices?(view: NoticeView<Config>): readonly string[] | Promise<readonly string[]>
  /** Slow work goes here, not at import. Bounded by `loader.startTimeoutMs`. */
  start?(ctx: StartContext<Config>): void | Promise<void>
  /**
   * Ends what `start` and calls have begun. A changed configuration starts the same module again before its calls of before are
   * over; `stop` comes when the last start is, and `signal` aborts for each.
   */
  stop?(): void | Promise<void>
}

const BRAND = Symbol.for('pegboard.module')

// Unconstrained: with a bound, one tool without an input would cost all the others their types.
type ToolsOf<Config, Inputs> = { readonly [K in keyof Inputs]: ToolDef<Config, Inputs[K]> }
// Apart from the inputs: inferred together, one tool without an output would cost all the others their types, too. What
// `run` takes is said there; `never` adds nothing to it.
type OutputsOf<Outputs> = {
  readonly [K in keyof Outputs]: {
    readonly output?: Outputs[K]
    run(input: never, ctx: never): Returned<Outputs[K]> | Promise<Returned<Outputs[K]>>
  }
}

/**
 * Types a module: inside each tool, `input` and `config` are inferred from their schemas, and `run` has to return what
 * `output` says. Returns what it was given.
 */
export function defineModule<Config, Inputs, Outputs>(
  module: Omit<ToolModule<Config>, 'tools'> & { readonly tools: ToolsOf<Config, Inputs> & OutputsOf<Outputs> },
): ToolModule<Config> {
  return Object.assign({ [BRAND]: true }, module) as unknown as ToolModule<Config>
}
