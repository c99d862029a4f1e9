import type { Ending } from './ending.ts'
import type { Fetch } from './fetch.ts'
import type { Log } from './log.ts'
import type { ToolLoop } from './loop.ts'
import type { Profile } from './profile.ts'
import type { ToolResult } from './result.ts'
import type {
  Adapters,
  Conversations,
  Incoming,
  Kv,
  Llm,
  Memory,
  Messages,
  Processes,
  Registry,
  Servers,
  Tasks,
} from './services.ts'
import type { Effect, Relay } from './tool.ts'

/** Which tools a token is for: a tool needs one grant that fits, beside what its profile allows. */
export interface Grant {
  /** By id or wire name, with `*`; absent: all. */
  readonly tools?: readonly string[] | undefined
  /** The worst that they may do; absent: anything. */
  readonly effect?: Effect | undefined
}

/** What let somebody in, where it can be asked again later: a token by its id, or an access token by its scopes and its end. */
export type Credential = { readonly token: string } | { readonly oauth: readonly string[]; readonly until: number }

/** Who is asking. Built once per request by the server; tools never choose it. */
export interface Caller {
  /** `local` on stdio; from the token on HTTP. */
  readonly principal: string
  /** Named set of modules, upstreams, flags and limits; `default`. */
  readonly profile: string
  readonly roles: readonly string[]
  /** A bearer token says so. */
  readonly byToken?: true
  /** Absent: all that its profile may. */
  readonly grants?: readonly Grant[]
  /** Absent: a token of the configuration, or none. */
  readonly credential?: Credential
  /** Of the model behind this request, where the client says so and is believed; absent: as the profile says. */
  readonly provider?: string
  /** Where the request comes from, where the client says so and is believed; absent: nobody said. No platform: that of the profile. */
  readonly origin?: Origin
  /** The message that the request serves, where the client says so and is believed. */
  readonly turn?: Turn
  /** What the client calls itself. Absent for some 2025-era HTTP requests: nothing essential may depend on it. */
  readonly client?: { readonly name: string; readonly version: string }
  readonly era: 'legacy' | 'modern'
  /** One 2025-era connection. How tools are shown is decided once for it. */
  readonly session?: string
  readonly supports: { readonly elicitation: boolean; readonly sampling: boolean; readonly roots: boolean }
}

/** Where the request came from, for tools that serve chat platforms. Empty strings when unknown. */
export interface Origin {
  readonly platform: string
  readonly channelId: string
  readonly messageId: string
  readonly userId: string
  readonly userName: string
  readonly guildId: string
  /** The group of channels that the channel belongs to, where the client says so. */
  readonly categoryId?: string
  /** Names of those who are in the channel now, and of those who were seen there, where the client says so. */
  readonly channelMembers?: readonly string[]
  readonly seenMembers?: readonly string[]
}

/** One round of a conversation, as the client tells it. */
export interface Turn {
  /** What the person wrote. */
  readonly message?: string
  /** What this person wants of tools that are offered on purpose only: as the profile says, always so, never so. */
  readonly deliberate?: 'follow' | 'on' | 'off'
  /** The same for all requests that make one answer. */
  readonly generation?: string
}

/** A file a tool sends along with its result. Becomes an image, audio, text or blob block. */
export interface SentFile {
  readonly data: Uint8Array | string
  readonly filename: string
  readonly mimetype: string
  readonly fileUrl?: string
  /** Only a link to it is sent, however short it is: it is read when somebody wants it. */
  readonly apart?: boolean
}

/** A question for the person behind the client; `schema` is a flat JSON Schema of primitives. */
export interface Question {
  readonly message: string
  readonly schema: Readonly<Record<string, unknown>>
}
export type Answer =
  | { readonly action: 'accept'; readonly content: Readonly<Record<string, unknown>> }
  | { readonly action: 'decline' | 'cancel' }

/** How one configured MCP server is doing. */
export interface ServerStatus {
  readonly id: string
  /** The category of its tools: `mcp_<id>`. */
  readonly category: string
  /** `configured`: never seen; `known`: its tools are kept, it is not running. */
  readonly state: 'configured' | 'known' | 'started' | 'failing' | 'degraded' | 'stopped'
  /** Why it is not well, in words for people. */
  readonly reason?: string
  readonly tools: number
  /** Tools that were skipped, and what of the schemas of the others is not enforced. */
  readonly notes?: readonly string[]
  readonly transport: 'stdio' | 'http' | 'sse'
  readonly era?: 'legacy' | 'modern'
  /** What the server says its version is. */
  readonly version?: string
  /** Milliseconds until it is tried again. */
  readonly nextAttemptMs?: number
  /** Who shares one running copy of it; absent: everybody. */
  readonly instance?: 'principal' | 'session'
  /** How many copies run; absent where all share one. */
  readonly instances?: number
  /** Resources and templates that it lists and another server, or Pegboard, answers for. */
  readonly clashes?: readonly string[]
}

/** What the host offers to modules; a service that is off is `null`. All are made when first looked at. */
export interface Services {
  /** The configured MCP servers, as far as the caller may know of them. */
  readonly servers: Servers | null
  readonly kv: Kv | null
  readonly messages: Messages | null
  readonly conversations: Conversations | null
  readonly tasks: Tasks | null
  readonly registry: Registry | null
  readonly adapters: Adapters | null
  readonly incoming: Incoming | null
  readonly llm: Llm | null
  /** Programs, started so that they end with Pegboard. */
  readonly processes: Processes | null
  /** Long-term memory. */
  readonly memory: Memory | null
  /** The same as the `loop` of the call. */
  readonly loop: ToolLoop | null
  /** What the operator set, read-only and without secrets. */
  readonly config: Readonly<Record<string, unknown>>
}

export const noServices: Services = {
  servers: null,
  kv: null,
  messages: null,
  conversations: null,
  tasks: null,
  registry: null,
  adapters: null,
  incoming: null,
  llm: null,
  processes: null,
  memory: null,
  loop: null,
  config: Object.freeze({}),
}

/** Whom services are for, and the way back to whoever asked, where a call is under way. */
export interface ServiceUser {
  readonly module: string
  readonly caller: Caller
  readonly profile: Profile
  readonly relay?: Relay
  readonly ending?: Ending
  readonly loop?: ToolLoop | null
  /** When it fires, what was left to hear or to be called through is taken away. */
  readonly until?: AbortSignal
}

export type ServicesFor = (user: ServiceUser) => Services

/** A file that a call or one it made has sent. */
export interface SharedFile extends SentFile {
  /** Which call sent it: 0 for the one a client made, or the place among those that run together. */
  readonly callIndex: number
}

/** What `run` receives when it declares a second parameter. The model never sees or fills it; no field is ever missing. */
export interface CallContext<Config = unknown> {
  readonly config: Config
  readonly caller: Caller
  readonly profile: Profile
  /** Random, also in the log and in error results. */
  readonly callId: string
  /** A set-up step of the configuration is run, not a call of a client. */
  readonly setup: boolean
  readonly origin: Origin
  readonly services: Services
  /** The rounds of tool calls of this conversation; `null` where the client runs it, which every MCP client does. */
  readonly loop: ToolLoop | null
  /** Fires on client cancel, timeout and shutdown. */
  readonly signal: AbortSignal
  readonly log: Log
  /** Values that `_` helper files exported, by file stem without the underscore. */
  readonly shared: Readonly<Record<string, unknown>>
  /** Reaches public addresses only, unless `services.fetch` says otherwise; a read-only tool can only GET, HEAD and OPTIONS. */
  readonly fetch: Fetch
  progress(done: number, total?: number, message?: string): void
  /** Adds a file to the result of this call. What is sent is shared with the calls it makes, and never taken back. */
  sendFile(file: SentFile): void
  /** From here on its client need not wait: the call becomes a task, where the client takes tasks. */
  background(): void
  /** What has been sent so far. */
  readonly sentFiles: readonly SharedFile[]
  /** Wants a tool to be at hand from the end of this call on. */
  injectTool(name: string): void
  /** What was wanted so far. */
  readonly injectedTools: readonly string[]
  /** Adds a sentence shown beside the result. */
  warn(message: string): void
  /** Rejects with E_CANNOT_ASK where the client has no elicitation. */
  ask(question: Question): Promise<Answer>
  /**
   * Runs another tool as the same caller, under the same policy and limits, at most three deep. A tool that returns what it
   * got hands it on as it is.
   */
  call(id: string, input: unknown): Promise<ToolResult>
}

export const noOrigin: Origin = { platform: 'mcp', channelId: '', messageId: '', userId: '', userName: '', guildId: '' }

/** Where a request comes from, as far as anybody knows. */
export const originOf = ({ origin = noOrigin }: Caller, { platform }: Profile): Origin =>
  origin !== noOrigin && origin.platform !== '' ? origin : { ...origin, platform: platform || noOrigin.platform }

/** The caller of a local process: command line, stdio, tests. */
export const localCaller: Caller = {
  principal: 'local',
  profile: 'default',
  roles: [],
  era: 'legacy',
  supports: { elicitation: false, sampling: false, roots: false },
}
