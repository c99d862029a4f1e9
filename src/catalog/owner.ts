import type { Caller } from '../core/caller.ts'
import type { PromptSection } from '../core/module.ts'
import type { Profile } from '../core/profile.ts'
import type { NameOf, Relay, Tool } from '../core/tool.ts'

/** `configured`: Pegboard has never connected to it. `known`: its tools come from disk, and it is not running. */
export type OwnerState = 'ready' | 'configured' | 'known' | 'connecting' | 'failing' | 'stopped' | 'degraded'

/** What the catalog knows about a module, an upstream server or an API, besides what it publishes. */
export interface OwnerInfo {
  /** Id of the module, `mcp_<server>` or `api_<api>`. Also the category of its tools. */
  readonly id: string
  /** One line for people and models, from the operator or the owner; empty if neither gave one. */
  readonly summary: string
  /** `upstream`: a server or an API. */
  readonly origin: 'module' | 'upstream'
  /** Text about it from the operator or the module, for search. */
  readonly about?: string
  /** Groups of words that mean the same to this owner, for search. */
  readonly synonyms?: readonly (readonly string[])[]
  readonly state: OwnerState
  /** Why the owner is not ready, in words for people. */
  readonly reason?: string
  /** Creates the reason for one caller, if it names the caller's login. Views show it as `reason`. */
  readonly reasonFor?: (caller: Pick<Caller, 'principal'>) => string
  /** Time of the next attempt to connect, in milliseconds since the epoch; only if one is planned. */
  readonly nextAttemptAt?: number
  /** Duration of the last start, in milliseconds; only if it is not started. */
  readonly startsInMs?: number
  /** What the operator should do although the owner works, with the command to run. Callers get `View.reviewNotice`. */
  readonly notice?: string
  /** Which bundled tools its tools replace: `url_fetcher` or `web_search`. */
  readonly provides?: string
  /** Maximum size of its resources for the model, in tokens; 0: no limit. */
  readonly maxResultTokens?: number
  /** True if only modules may use its tools. Clients do not learn about the owner. */
  readonly internal?: boolean
  /** Resources that are the results of its tools. */
  readonly toolResources?: readonly ToolResource[]
  /** Returns what the owner adds to prompts. May throw. */
  readonly promptSection?: (caller: Caller, nameOf: NameOf, profile: Profile) => PromptSection | undefined
  /** Returns notices that the caller gets with a result. May throw. */
  readonly notices?: (caller: Caller, profile: Profile) => readonly string[] | Promise<readonly string[]>
}

/** What changes while the tools stay. A change replaces state, reason, next attempt and start time together. */
export type OwnerChange = Pick<OwnerInfo, 'state' | 'reason' | 'reasonFor' | 'nextAttemptAt' | 'startsInMs' | 'summary'>

/** A resource whose content is the result of a tool. Callers who see the tool see the resource. */
export interface ToolResource {
  readonly uri: string
  /** The resource as clients list it. */
  readonly entry: Readonly<Record<string, unknown>>
  /** Id of the tool. */
  readonly tool: string
  readonly input: Readonly<Record<string, unknown>>
  readonly mimeType: string
}

/** A resource as its owner published it; clients receive `entry` unchanged. */
export interface Resource {
  readonly uri: string
  readonly entry: Readonly<Record<string, unknown>>
}

/** A resource template as its owner published it; clients receive `entry` unchanged. */
export interface ResourceTemplate {
  readonly uriTemplate: string
  readonly entry: Readonly<Record<string, unknown>>
}

/** A prompt as its owner published it; clients receive `entry` unchanged except for the name. */
export interface Prompt {
  /** The name for clients. */
  readonly name: string
  readonly entry: Readonly<Record<string, unknown>>
}

/** The requests that an owner of resources and prompts answers. Names and URIs are as listed; results pass unchanged. */
export interface Endpoints {
  /**
   * When the owner first had this URI, in a list or in a result: servers link to resources that they never list.
   * @returns milliseconds on a clock that all owners share; undefined if it does not have the URI
   */
  firstSeenAt?(uri: string): number | undefined
  /** Resources and templates in the lists that Pegboard last read from the owner. No other owner answers for these. */
  listUris?(): readonly string[]
  /** Whether calls of its tools can be tasks; absent if unknown. */
  readonly tasks?: boolean
  request(
    method: string,
    params: Readonly<Record<string, unknown>>,
    relay: Relay,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>
}

/** A tool that waits for a review by the operator. It is not listed, found or called. */
export interface QuarantinedTool {
  readonly tool: Tool
  readonly code: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  /** Completes the sentence "it …". Safe to show to a model. */
  readonly reason: string
  readonly hint: string
  /** The operator has rejected this definition, so nothing waits. */
  readonly rejected?: true
}

/**
 * Tools that are created on first access. With 10,000 known tools this halves the start time and saves 30 MiB. Each
 * caller must see all of them or none. The owner ensures legal and distinct names.
 */
export interface LazyTools {
  readonly count: number
  /** Estimated tokens of listing all of them without their output schemas. */
  readonly tokens: number
  /** Like `Tool.available`, for all of them. */
  available(caller: Caller): true | string
  make(): readonly Tool[]
}

/** What an owner publishes, all at once. */
export interface OwnerContents {
  readonly tools: readonly Tool[] | LazyTools
  readonly quarantined?: readonly QuarantinedTool[]
  readonly resources?: readonly Resource[]
  readonly templates?: readonly ResourceTemplate[]
  readonly prompts?: readonly Prompt[]
  readonly endpoints?: Endpoints
}

export interface Owner extends OwnerInfo, Required<Omit<OwnerContents, 'tools' | 'endpoints'>> {
  /** Reading this creates tools that were published as `LazyTools`. */
  readonly tools: readonly Tool[]
  /** What is known about its tools without creating them; absent if they were published as a list. */
  readonly lazyTools?: LazyTools
  readonly endpoints?: Endpoints
}
