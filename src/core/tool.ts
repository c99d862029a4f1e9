import type { CallContext, Caller } from './context.ts'
import type { Profile } from './profile.ts'
import type { ToolResult } from './result.ts'
import type { JsonSchema, Schema } from './schema.ts'

/** The worst a tool does. MCP hints are derived from it at the edge. */
export type Effect = 'read' | 'write' | 'destructive'

/** What is done about a field that looks like a credential: nothing, its value is replaced, or the call fails. */
export type Tripwire = 'off' | 'warn' | 'redact' | 'throw'

export interface Example {
  readonly input: Readonly<Record<string, unknown>>
  readonly note?: string
}

/** Gives the wire name of another tool, for descriptions that mention it; `undefined` when this caller cannot see it. */
export type NameOf = (id: string) => string | undefined

/** What one caller is shown of a tool. */
export interface Draft {
  readonly description: string
  readonly input: Schema
}

/** What must be so for a tool to be there. Each is one stage of availability. */
export interface Needs {
  /** Only for these providers of models, or for none of those. In lower case. */
  readonly providers?: readonly string[]
  readonly notProviders?: readonly string[]
  /** What the model must be able to do, such as `vision`. */
  readonly capabilities?: readonly string[]
  /** Flags of the profile that must be on. */
  readonly flags?: readonly string[]
  /** Roles or permissions of which the caller must have all. */
  readonly permissions?: readonly string[]
}

export interface Capacity {
  readonly maxConcurrent: number
  /** Calls that may wait for one of those; the next is refused. */
  readonly maxQueued: number
  /** What the operator sets to let more wait. */
  readonly setting: string
}

/** One callable tool, whoever owns it. Immutable. Everything but `run` is safe to show a model. */
export interface Tool {
  /** `weather.forecast`: what people, configuration and logs use. */
  readonly id: string
  /** `weather__forecast`: what clients see. */
  readonly name: string
  /** `weather`: the category, and the owner in the catalogue. */
  readonly module: string
  readonly origin: 'module' | 'upstream'
  readonly title: string
  /** Nobody gave it a title: that one is made of its name. */
  readonly untitled?: true
  readonly description: string
  /** The schema a client is shown. Upstream tools keep theirs as text until it is asked for. */
  readonly input: Schema
  readonly output?: JsonSchema | undefined
  readonly effect: Effect
  /** That it only reads is what its server says, and nobody has vouched for that. */
  readonly hearsay?: boolean
  readonly idempotent: boolean
  readonly openWorld: boolean
  readonly sideEffects: readonly string[]
  readonly aliases: readonly string[]
  /** Those of them that the operator gave it. Of a server's tool no other counts for what the operator allows. */
  readonly chosenAliases?: readonly string[]
  /** What its server calls it, alone and with the prefix, where its id may say it otherwise. */
  readonly ownNames?: readonly string[]
  readonly tags: readonly string[]
  readonly examples: readonly Example[]
  /** For set-up steps and other modules only: to clients it does not exist. */
  readonly internal?: boolean
  /** Parameters that are accepted but not shown to a model; for developers. */
  readonly hiddenParameters?: Readonly<Record<string, JsonSchema>> | undefined
  /** Upstream `_meta`, annotations, icons: relayed when the tool is listed. */
  readonly extra: Readonly<Record<string, unknown>>
  /** The tool as its author made it, where a caller has it under an alias alone. */
  readonly itself?: Tool
  /** Id of a tool that callers do not see while they have this one. Only the operator's configuration sets it. */
  readonly replaces?: string
  readonly needs?: Needs
  /** What it does for prompts and profiles, whoever does it: `url_fetcher`, `web_search`. */
  readonly provides?: string
  /** Offered only when a message asks for what it does, where the profile wants that: the name of the intent. */
  readonly intent?: string
  /** Characters that listing it takes beside its name, as `charactersOf` counts: known without reading its definition. */
  readonly listed?: number | undefined
  /** A number that changes with its definition: known without reading that. */
  readonly stamp?: number
  /** How long a call may take; default is the operator's. */
  readonly timeoutMs?: number
  /** The setting that decides that, for whoever runs into it; default `execution.timeoutMs`. */
  readonly timeoutSetting?: string
  /** How many calls run at once; tools that share this object share the places and the line. */
  readonly capacity?: Capacity
  /** What is done about fields of its results that look like credentials; default nothing. */
  readonly tripwire?: Tripwire
  /** Parts of its results that are somebody else's data, as dotted paths: those are not looked at. */
  readonly opaque?: readonly string[]
  /** Changes nothing: it is given nothing that could. */
  readonly readOnly?: boolean
  /** Services it may write to all the same. */
  readonly writes?: readonly string[]
  /** Gets to see what the person wrote, which read-only tools do not. */
  readonly needsUserInput?: boolean
  /** Calls of it can be tasks, for clients that want that. */
  readonly asTask?: boolean
  /** Of a module's tool that takes long: calls are tasks for clients that take them, or for them only. */
  readonly task?: 'optional' | 'required'
  /** It says itself when its call becomes a task. */
  readonly asksFirst?: boolean
  /** Its calls are waited for however long they take. */
  readonly noBackground?: boolean
  /** Calling it again with the same arguments is how it is used. */
  readonly allowRepeat?: boolean
  /** Whoever calls it by its bare name while `enabled` of its module says no is told that it is disabled. */
  readonly toldWhenOff?: boolean
  /** Whether its module is switched on, or what the operator sets for that: clients are not told. Absent: it is. */
  enabled?(profile: Profile): true | string
  /** A string is the reason the tool is hidden. Pure and synchronous. */
  available(caller: Caller, profile: Profile): true | string
  /** `null` hides the tool from this caller. May narrow what is shown, never widen it. */
  assemble(caller: Caller, nameOf: NameOf, profile: Profile): Draft | null
  /** Whether its function wants a context; asked at every call, since the function may be replaced. Absent: it may. */
  takesContext?(): boolean
  /** Checks arguments with everything the tool knows, hidden parameters included. */
  parse(input: unknown): ReturnType<Schema['parse']>
  run(input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult>
}

/**
 * What a relayed call needs beyond arguments: the request's own `_meta` and the way back to the client that asked.
 * Module tools ignore it.
 */
export interface Relay {
  /** Who makes the request, where that is known; servers where everyone logs in for themselves refuse all others. */
  readonly principal?: string
  /** The 2025-era session of the request; servers that keep something for each session go by it. */
  readonly session?: string
  /** The client listens for progress of this call. */
  readonly wantsProgress?: boolean
  readonly meta: Readonly<Record<string, unknown>>
  readonly inputResponses?: unknown
  /** The client comes back with what this very call was answered with before. */
  readonly resumed?: true
  readonly requestState?: unknown
  /** Capabilities the client declared, as it sent them. */
  readonly clientCapabilities: Readonly<Record<string, unknown>>
  /** A 2025-11-25 client wants the call to be a task: what it asked of it. */
  readonly task?: Readonly<Record<string, unknown>>
  /** The same for all calls of one connection: who is asked when a server does not say which call its question is of. */
  readonly connection?: object
  /** Sends a request (elicitation, sampling, roots) to the client; absent where the era has no such channel. */
  readonly request?: (method: string, params: unknown, signal?: AbortSignal) => Promise<unknown>
  /** Sends a notification tied to this call (log messages of the upstream). */
  readonly notify?: (method: string, params: unknown) => void
}

/** On whose behalf a request is made. */
export interface Who {
  readonly principal?: string | undefined
  /** Absent where the protocol has no sessions. */
  readonly session?: string | undefined
}

export const noRelay: Relay = { meta: {}, clientCapabilities: {} }

/** For a request that Pegboard makes on behalf of a caller, who cannot be asked in the course of it. */
export const relayOf = ({ principal, session }: Pick<Caller, 'principal' | 'session'>): Relay => ({
  ...noRelay,
  principal,
  ...(session === undefined ? {} : { session }),
})

export const riskOf = (effect: Effect): 'low' | 'medium' | 'high' =>
  effect === 'read' ? 'low' : effect === 'write' ? 'medium' : 'high'
