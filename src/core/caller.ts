import type { Fetch } from './fetch-types.ts'
import type { Log } from './log.ts'
import type { Profile } from './profile.ts'
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
} from './service-types.ts'
import type { Effect, Relay } from './tool.ts'
import type { ToolLoop } from './tool-loop.ts'
import type { ToolResult } from './tool-result.ts'

/** Tools that a token allows. A tool needs one matching grant, besides the permission of the profile. */
export interface Grant {
  /** Patterns of ids or wire names, with `*`; default all. */
  readonly tools?: readonly string[] | undefined
  /** Maximum effect; default any. */
  readonly effect?: Effect | undefined
}

/** How a caller authenticated, so that Pegboard can check it again later: the id of a token, or the scopes and expiry of an access token. */
export type Credential = { readonly token: string } | { readonly oauth: readonly string[]; readonly until: number }

/** Who makes a request. The server creates it; tools never choose it. */
export interface Caller {
  /** `local` on stdio; on HTTP, the owner of the token. */
  readonly principal: string
  /** Name of the profile, such as `default`. */
  readonly profile: string
  readonly roles: readonly string[]
  /** True if a bearer token names the principal. */
  readonly byToken?: true
  /** Default: everything that the profile allows. */
  readonly grants?: readonly Grant[]
  /** Absent for a token of the configuration, and without a token. */
  readonly credential?: Credential
  /** Provider of the model, from a trusted client; default that of the profile. */
  readonly provider?: string
  /** Chat platform of the request, from a trusted client. An empty platform means that of the profile. */
  readonly origin?: Origin
  /** The message that the request answers, from a trusted client. */
  readonly turn?: Turn
  /** `clientInfo` of the client, if it sent one. Clients choose it, so it may decide how tools are shown, never which tools exist. */
  readonly client?: { readonly name: string; readonly version: string }
  /** Era of the client's protocol revision. `legacy` without a client: on the command line, on the page and for agents. */
  readonly era: 'legacy' | 'modern'
  /** Session of the 2025 protocol. Clients of 2026 have none. A session keeps its exposure mode when the configuration changes. */
  readonly session?: string
  readonly supports: { readonly elicitation: boolean; readonly sampling: boolean; readonly roots: boolean }
}

/** Origin of a request on a chat platform. Unknown fields are empty strings. */
export interface Origin {
  readonly platform: string
  readonly channelId: string
  readonly messageId: string
  readonly userId: string
  readonly userName: string
  readonly guildId: string
  /** Group of channels that contains the channel. */
  readonly categoryId?: string
  /** Names of users who are in the channel, and of those who were seen there. */
  readonly channelMembers?: readonly string[]
  readonly seenMembers?: readonly string[]
  /** Access level of the user on the platform; only with `server.trustMeta: "all"`. */
  readonly userLevel?: number
}

/** A round of a conversation, as the client reports it. */
export interface Turn {
  readonly message?: string
  /** Deliberate mode for this user: as in the profile, always on, or always off. */
  readonly deliberate?: 'follow' | 'on' | 'off'
  /** Identifies the answer: equal for all requests that contribute to it. */
  readonly generation?: string
}

/** A file that a tool adds to its result. It becomes an image, audio, text or blob block. */
export interface SentFile {
  readonly data: Uint8Array | string
  readonly filename: string
  readonly mimetype: string
  readonly fileUrl?: string
}

/** A question to the user. `schema` is a flat JSON Schema of primitives. */
export interface Question {
  readonly message: string
  readonly schema: Readonly<Record<string, unknown>>
}
export type Answer =
  | { readonly action: 'accept'; readonly content: Readonly<Record<string, unknown>> }
  | { readonly action: 'decline' | 'cancel' }

/** Status of a configured MCP server. */
export interface ServerStatus {
  readonly id: string
  /** The category of its tools: `mcp_<id>`. */
  readonly category: string
  /** `configured`: Pegboard has never connected to it. `known`: its tools come from disk, and it is not running. */
  readonly state: 'configured' | 'known' | 'started' | 'failing' | 'degraded' | 'stopped'
  /** Why the server is not ready, in words for people. */
  readonly reason?: string
  /** Number of its tools that the caller sees; in `available`, of all its tools. */
  readonly tools: number
  /** Tools that were skipped, and parts of schemas that are not enforced. Absent if the caller does not see all tools. */
  readonly notes?: readonly string[]
  readonly transport: 'stdio' | 'http' | 'sse'
  readonly era?: 'legacy' | 'modern'
  /** Version that the server reports. */
  readonly version?: string
  /** Milliseconds until the next attempt to connect. */
  readonly nextAttemptMs?: number
  /** Whether each principal or each session has its own instance. Absent if all clients share one. */
  readonly instance?: 'principal' | 'session'
  /** Number of instances; absent if all clients share one. */
  readonly instances?: number
  /** Resources and templates of the server whose URIs belong to another server or to Pegboard. */
  readonly clashes?: readonly string[]
}

/** Services for modules. A disabled service is `null`. Each one is created when it is first read. */
export interface Services {
  /** The configured MCP servers that the caller may see. */
  readonly servers: Servers | null
  readonly kv: Kv | null
  readonly messages: Messages | null
  readonly conversations: Conversations | null
  readonly tasks: Tasks | null
  readonly registry: Registry | null
  readonly adapters: Adapters | null
  readonly incoming: Incoming | null
  readonly llm: Llm | null
  /** Child processes, which exit with Pegboard. */
  readonly processes: Processes | null
  /** Long-term memory. */
  readonly memory: Memory | null
  /** Same as `loop` of the call context. */
  readonly loop: ToolLoop | null
  /** The configuration, read-only and without secrets. */
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

/** The module and caller that use the services. During a call, `relay` sends requests to the client. */
export interface ServiceUser {
  readonly module: string
  readonly caller: Caller
  readonly profile: Profile
  readonly relay?: Relay
  /** Signal of the current call; absent outside of a call. */
  readonly signal?: AbortSignal
  readonly loop?: ToolLoop | null
  /** When this signal aborts, Pegboard removes listeners and callbacks of the module. */
  readonly until?: AbortSignal
}

export type ServicesFor = (user: ServiceUser) => Services

/** A file sent by a call, or by one of the calls that it made. */
export interface SharedFile extends SentFile {
  /** The call that sent it: 0 for a client's call, or the position among calls that run together. */
  readonly callIndex: number
}

/**
 * The second argument of `run` in `defineModule`; tools in single files receive a `ToolContext`. The model neither sees
 * nor fills it. No field is ever missing.
 *
 * @example
 * ```ts
 * async run({ url }, ctx) {
 *   ctx.progress(0, 1, 'downloading')
 *   const page = await ctx.fetch(url, { signal: ctx.signal })
 *   const answer = await ctx.ask({
 *     message: 'Save the page?',
 *     schema: { type: 'object', properties: { yes: { type: 'boolean' } } },
 *   })
 *   if (answer.action !== 'accept' || !answer.content.yes) return 'The user declined.'
 *   return await ctx.call('filesystem.write_file', { path: 'page.html', content: await page.text() })
 * }
 * ```
 */
export interface CallContext<Config = unknown> {
  readonly config: Config
  readonly caller: Caller
  readonly profile: Profile
  /** Random id of the call, also in the log and in error results. */
  readonly callId: string
  /** True for a set-up step of the configuration. */
  readonly setup: boolean
  readonly origin: Origin
  readonly services: Services
  /** Rounds of tool calls in this conversation; `null` if the client runs them, as every MCP client does. */
  readonly loop: ToolLoop | null
  /** Aborts when the client cancels, on timeout, and on shutdown. */
  readonly signal: AbortSignal
  readonly log: Log
  /** Exports of `_` helper files, by file name without underscore and extension. */
  readonly shared: Readonly<Record<string, unknown>>
  /**
   * Reaches only public addresses, unless `services.fetch` allows others. In a tool with `readOnly: true`, methods
   * other than GET, HEAD and OPTIONS throw E_READ_ONLY_CONTRACT.
   */
  readonly fetch: Fetch
  progress(done: number, total?: number, message?: string): void
  /** Adds a file to the result. Calls that this call makes see it, too. It cannot be removed. */
  sendFile(file: SentFile): void
  /** Turns the call into a task, so that its client need not wait; does nothing if the client does not support tasks. */
  background(): void
  /** Files sent so far. */
  readonly sentFiles: readonly SharedFile[]
  /** Lists a tool for this caller when the call has ended. */
  injectTool(name: string): void
  /** Names passed to `injectTool` so far. */
  readonly injectedTools: readonly string[]
  /** Adds a sentence to the result. */
  warn(message: string): void
  /** Asks the user. @throws PegboardError E_CANNOT_ASK if the client does not support elicitation */
  ask(question: Question): Promise<Answer>
  /**
   * Runs another tool for the same caller, with the same policy and limits. At most three levels deep. Return the
   * result unchanged to pass it on.
   * @throws PegboardError as the call of a client
   */
  call(id: string, input: unknown): Promise<ToolResult>
}

export const noOrigin: Origin = { platform: 'mcp', channelId: '', messageId: '', userId: '', userName: '', guildId: '' }

/** The origin of a request. Its platform defaults to that of the profile. */
export const originOf = ({ origin = noOrigin }: Caller, { platform }: Profile): Origin =>
  origin !== noOrigin && origin.platform !== '' ? origin : { ...origin, platform: platform || noOrigin.platform }

/** The caller of the command line, of agents and of tests. Clients over stdio are also `local`, with their own `client` and `session`. */
export const localCaller: Caller = {
  principal: 'local',
  profile: 'default',
  roles: [],
  era: 'legacy',
  supports: { elicitation: false, sampling: false, roots: false },
}
