import type { CallContext, Caller } from './caller.ts'
import type { Profile } from './profile.ts'
import type { JsonSchema, Schema } from './schema.ts'
import type { ToolResult } from './tool-result.ts'

/** The worst that a tool does, from the mildest to the worst. The hints of MCP are derived from it. */
export const EFFECTS = ['read', 'write', 'destructive'] as const
export type Effect = (typeof EFFECTS)[number]

/** What happens to a field of a result that looks like a credential: `redact` replaces its value, `throw` fails the call. */
export type Tripwire = 'off' | 'warn' | 'redact' | 'throw'

/** An example call, for models and for search. */
export interface Example {
  readonly input: Readonly<Record<string, unknown>>
  /** What the call does, in a few words. */
  readonly note?: string
}

/** Returns the wire name of another tool, for descriptions that mention it; `undefined` if this caller does not see it. */
export type NameOf = (id: string) => string | undefined

/** The description and schema of a tool for one caller. */
export interface Draft {
  readonly description: string
  readonly input: Schema
}

/** Conditions that must hold for a caller to see a tool. */
export interface Needs {
  /** Only for models of these providers, or for models of none of these. In lower case. */
  readonly providers?: readonly string[]
  readonly notProviders?: readonly string[]
  /** Capabilities that the model must have, such as `vision`. */
  readonly capabilities?: readonly string[]
  /** Flags of the profile that must be on. */
  readonly flags?: readonly string[]
  /** Roles or permissions. The caller must have all of them. */
  readonly permissions?: readonly string[]
}

/** Limits of concurrent calls. Tools that share the object share the limits. */
export interface Capacity {
  readonly maxConcurrent: number
  /** Slots that one principal can have (default 7/8 of them). */
  readonly share?: number
  /** Number of calls that may wait. Pegboard rejects the next one. */
  readonly maxQueued: number
  /** The setting with which the operator changes `maxQueued`; empty if there is none. */
  readonly setting: string
}

/** Names and owner of a tool. */
export interface ToolIdentity {
  /** `weather.forecast`: the name for people, configuration and logs. */
  readonly id: string
  /** `weather__forecast`: the wire name, for clients. */
  readonly name: string
  /** `weather`: the category, and the id of its owner in the catalog. Only ids of servers begin with `mcp_`, and only those of APIs with `api_`. */
  readonly module: string
  /** `upstream`: a tool of an upstream server or of an API. */
  readonly origin: 'module' | 'upstream'
  /** Other names, for calls and for search. */
  readonly aliases: readonly string[]
  /** Phrases with another verb, such as `find issue` for `search_issue`. For search only, because a call with such a phrase could run the wrong tool. */
  readonly searchPhrases?: readonly string[]
  /** The aliases that the operator chose, if there are others. Allow rules match only these. */
  readonly chosenAliases?: readonly string[]
  /** The server's own name for it, first without the prefix, then with it, if the id may differ. */
  readonly ownNames?: readonly string[]
  /** The tool as its author made it, if this caller knows it only by an alias. */
  readonly itself?: Tool
}

/** What clients, models and search learn about a tool. */
export interface ToolDefinition {
  readonly title: string
  /** True if the title was made of the name. */
  readonly untitled?: boolean
  readonly description: string
  /** The whole description, if `description` is only its beginning. */
  readonly fullDescription?: string | undefined
  /** The schema for clients. Tools of servers parse theirs on first access. */
  readonly input: Schema
  readonly output?: JsonSchema | undefined
  readonly effect: Effect
  /** True if only the server says that the tool just reads, and the operator does not trust its hints. */
  readonly unverifiedRead?: boolean
  readonly idempotent: boolean
  readonly openWorld: boolean
  readonly sideEffects: readonly string[]
  /** For search. From the module or the OpenAPI document; a server's tools have `mcp` and the server's id. */
  readonly tags: readonly string[]
  readonly examples: readonly Example[]
  /** Accepted parameters that a model does not see; for developers. */
  readonly hiddenParameters?: Readonly<Record<string, JsonSchema>> | undefined
  /** `_meta`, annotations and icons of a server's tool. Clients receive them unchanged. */
  readonly extra: Readonly<Record<string, unknown>>
  /** Characters of its list entry without the name and output schema, as `charactersOf` counts. Readable without parsing the definition. */
  readonly listed?: number | undefined
  /** A number that changes with the definition. Readable without parsing the definition. */
  readonly stamp?: number
}

/** What the author of a module may declare of a tool, as it applies to calls. */
export interface ToolTraits {
  /**
   * True if it changes nothing. It then receives a read-only context: services only read, and the message of the user
   * is missing. Its `effect` must be `read` unless `writes` names services. Default: as the module.
   */
  readonly readOnly?: boolean
  /** Services that it writes to although it is read-only: `['kv']`. Default: as the module. */
  readonly writes?: readonly string[]
  /** True if it receives the message of the user although it is read-only; default false. */
  readonly needsUserInput?: boolean
  /**
   * Dotted paths of parts of the result that are data of others: `body`, `rows`, `pages.*.text`. Fields there may have
   * any name. Elsewhere, a field that looks like a credential fails the call or has its value replaced.
   */
  readonly opaque?: readonly string[]
  /**
   * Dotted paths of parts of the result that differ in each call, such as `elapsed_ms`. Watchers neither compare nor
   * show them.
   */
  readonly volatile?: readonly string[]
  /** True if repeating a call with the same arguments is normal use, so that `execution.repeatWarning` ignores it. */
  readonly allowRepeat?: boolean
  /** The tool is slow: clients that support tasks get a task. `required`: other clients of the newest protocol cannot call it. */
  readonly task?: 'optional' | 'required'
  /** True if a call becomes a task only when it calls `ctx.background()`, for example after it has asked a question. */
  readonly asksFirst?: boolean
  /** True if `execution.autoBackgroundAfterMs` never moves a call to the background: it would lose its context. */
  readonly noBackground?: boolean
  /** True if only set-up steps and modules may call it; default false. */
  readonly internal?: boolean
  /** True if a client that calls its bare name while the module is not enabled learns that it is disabled; default false. */
  readonly toldWhenOff?: boolean
  /** Conditions of the model, the profile and the caller; default none. */
  readonly needs?: Needs
  /** What it does for prompts and profiles: `url_fetcher` or `web_search`. A server of a profile may replace it. */
  readonly provides?: string
  /** Name of an intent. In deliberate mode, the tool is offered only if a message asks for it. */
  readonly intent?: string
}

/** What decides who sees a tool. See `checkVisibility`. */
export interface ToolAvailability {
  /** Id of a tool that callers do not see while they see this one. Set by the operator only. */
  readonly replaces?: string
  /** `true`, or the setting that switches its module on; clients do not learn it. Default: it is on. */
  enabled?(profile: Profile): true | string
  /** `true`, or the reason why the tool is hidden. Pure and synchronous. */
  available(caller: Caller, profile: Profile): true | string
  /** The definition for this caller; `null` hides the tool. It may only narrow the schema. */
  assemble(caller: Caller, nameOf: NameOf, profile: Profile): Draft | null
}

/** Limits of a tool's calls. */
export interface ToolCallSettings {
  /** Maximum duration of a call, in milliseconds; default `execution.timeoutMs`. */
  readonly timeoutMs?: number
  /** The setting of that duration, for error messages; default `execution.timeoutMs`. */
  readonly timeoutSetting?: string
  /** Maximum tokens of a result for a model, 0 for no limit; default that of the client. */
  readonly maxResultTokens?: number | undefined
  readonly capacity?: Capacity
  /** Default `off`. */
  readonly tripwire?: Tripwire
}

/** Whether calls of a tool can become tasks. */
export interface ToolTaskSettings {
  /** True if clients may request a task. */
  readonly asTask?: boolean
  /** True if its server declares task support, so that Pegboard declares its own. */
  readonly saysTaskSupport?: boolean
}

/** A callable tool of any owner. Immutable. Everything except `run` is safe to show to a model. */
export interface Tool
  extends ToolIdentity,
    ToolDefinition,
    ToolTraits,
    ToolAvailability,
    ToolCallSettings,
    ToolTaskSettings {
  /** True if its function takes a context. Checked again at every call, because a function may be replaced. Default: true. */
  takesContext?(): boolean
  /** Checks arguments, hidden parameters included. */
  parse(input: unknown): ReturnType<Schema['parse']>
  /** @throws any error; `Calls.call` turns it into a `PegboardError` */
  run(input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult>
}

/** For whom a request is made. */
export interface RequestOwner {
  /** Absent if it is unknown. Servers with a login for each principal reject requests without one. */
  readonly principal?: string | undefined
  /** The session of the 2025 protocol, for servers that keep data for each session. */
  readonly session?: string | undefined
}

/** What a relayed request needs besides its arguments: its `_meta`, and a way back to the client. Module tools ignore it. */
export interface Relay extends RequestOwner {
  /** True if the client wants progress notifications of this call. */
  readonly wantsProgress?: boolean
  readonly meta: Readonly<Record<string, unknown>>
  readonly inputResponses?: unknown
  /** True if the client repeats a call to answer its question. A signed `requestState` proves it. */
  readonly resumed?: true
  readonly requestState?: unknown
  readonly clientCapabilities: Readonly<Record<string, unknown>>
  /** The task parameters of a call from a 2025-11-25 client. */
  readonly task?: Readonly<Record<string, unknown>>
  /** Identifies the connection. A server's question that names no call goes to a client of the same connection. */
  readonly connection?: object
  /** Sends a request (elicitation, sampling, roots) to the client; absent if its protocol has no such channel. */
  readonly request?: (method: string, params: unknown, signal?: AbortSignal) => Promise<unknown>
  /** Sends a notification of this call, such as a log message of the server. */
  readonly notify?: (method: string, params: unknown) => void
}

/** For requests that no client made. */
export const noRelay: Relay = { meta: {}, clientCapabilities: {} }

/** For a request that Pegboard makes on behalf of a caller. It cannot ask the caller anything. */
export const relayOf = ({ principal, session }: Pick<Caller, 'principal' | 'session'>): Relay => ({
  ...noRelay,
  principal,
  session,
})

/** The effect in the words of the field `risk_level`. */
export const riskOf = (effect: Effect): 'low' | 'medium' | 'high' =>
  effect === 'read' ? 'low' : effect === 'write' ? 'medium' : 'high'
