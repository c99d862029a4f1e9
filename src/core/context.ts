import type { Log } from './log.ts'
import type { ToolResult } from './result.ts'

/** Who is asking. Built once per request by the server; tools never choose it. */
export interface Caller {
  /** `local` on stdio; from the token on HTTP. */
  readonly principal: string
  /** Named set of modules, upstreams, flags and limits; `default`. */
  readonly profile: string
  readonly roles: readonly string[]
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
}

/** A file a tool sends along with its result. Becomes an image, audio, text or blob block. */
export interface SentFile {
  readonly data: Uint8Array | string
  readonly filename: string
  readonly mimetype: string
  readonly fileUrl?: string
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
  /** `configured`: never seen; `known`: its tools are kept, it is not running. */
  readonly state: 'configured' | 'known' | 'started' | 'failing' | 'degraded' | 'stopped'
  /** Why it is not well, in words for people. */
  readonly reason?: string
  readonly tools: number
  readonly transport: 'stdio' | 'http' | 'sse'
  readonly era?: 'legacy' | 'modern'
  /** What the server says its version is. */
  readonly version?: string
  /** Milliseconds until it is tried again. */
  readonly nextAttemptMs?: number
}

/** What the host offers to modules; a service that is not there is `null`. */
export interface Services {
  /** The configured MCP servers. */
  readonly servers: { list(): readonly ServerStatus[] } | null
}

export const noServices: Services = { servers: null }

/** What `run` receives when it declares a second parameter. The model never sees or fills it; no field is ever missing. */
export interface CallContext<Config = unknown> {
  readonly config: Config
  readonly caller: Caller
  /** Random, also in the log and in error results. */
  readonly callId: string
  readonly origin: Origin
  readonly services: Services
  /** Fires on client cancel, timeout and shutdown. */
  readonly signal: AbortSignal
  readonly log: Log
  /** Values that `_` helper files exported, by file stem without the underscore. */
  readonly shared: Readonly<Record<string, unknown>>
  progress(done: number, total?: number, message?: string): void
  /** Adds a file to the result of this call. */
  sendFile(file: SentFile): void
  /** Adds a sentence shown beside the result. */
  warn(message: string): void
  /** Rejects with E_CANNOT_ASK where the client has no elicitation. */
  ask(question: Question): Promise<Answer>
  /** Runs another tool as the same caller, under the same policy and limits, at most three deep. */
  call(id: string, input: unknown): Promise<ToolResult>
}

export const noOrigin: Origin = { platform: 'mcp', channelId: '', messageId: '', userId: '', userName: '', guildId: '' }

/** The caller of a local process: command line, stdio, tests. */
export const localCaller: Caller = {
  principal: 'local',
  profile: 'default',
  roles: [],
  era: 'legacy',
  supports: { elicitation: false, sampling: false, roots: false },
}
