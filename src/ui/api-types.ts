// What the page and `pegboard top` receive as JSON. It imports nothing, so that the page can use it, too.

/** A server or an API, or a module with tools. */
export interface OwnerRow {
  /** The category of its tools, such as `mcp_github`. */
  readonly id: string
  /** Key of its entry in the configuration; absent for modules. */
  readonly server?: string
  readonly kind: 'server' | 'api' | 'module'
  readonly state: string
  /** For people: why it is not ready, or what to do. */
  readonly reason?: string
  readonly summary: string
  /** Number of tools that clients see. */
  readonly tools: number
  /** Estimated tokens of the definitions of these tools. */
  readonly tokens: number
  readonly transport?: 'stdio' | 'http' | 'sse'
  readonly protocol?: '2025' | '2026'
  readonly version?: string
  /** Duration of the last start in milliseconds. */
  readonly startMs?: number
  /** Milliseconds since the epoch. */
  readonly nextAttemptAt?: number
  /** Its program may be downloading it. */
  readonly downloading?: true
  readonly needsLogin?: true
  /** A login that was started on the page: where to log in, or why it failed. Absent after a success. */
  readonly login?: LoginState
  /** Actions that are possible now. */
  readonly actions: readonly ServerAction[]
}

export type LoginState = { readonly url: string } | { readonly error: string }

export type ServerAction = 'connect' | 'restart' | 'disconnect' | 'login'
export const SERVER_ACTIONS: readonly ServerAction[] = ['connect', 'restart', 'disconnect', 'login']

export interface ServerDetail {
  readonly id: string
  /** The last lines on stderr. */
  readonly stderr: readonly string[]
  /** Skipped tools and constraints that are not enforced. */
  readonly notes: readonly string[]
  /** The command line or address, without secrets. */
  readonly target?: string
  /** What a local program may touch: its sandbox, or everything. */
  readonly mayTouch?: string
  /** Where its entry is in the configuration. */
  readonly where?: string
}

export interface ToolRow {
  readonly id: string
  /** Name for clients. */
  readonly name: string
  readonly owner: string
  readonly summary: string
  readonly effect: 'read' | 'write' | 'destructive'
  readonly tokens: number
  /** Why clients do not see it. */
  readonly hidden?: string
}

export interface ToolDetail extends ToolRow {
  readonly description: string
  readonly schema: unknown
  /** Lines of `pegboard why`. */
  readonly why: readonly (readonly [label: string, text: string])[]
  readonly visible: boolean
}

export interface SearchRow {
  readonly id: string
  readonly score: number
  readonly matched: readonly string[]
  /** Parts of the score by name. */
  readonly parts: Readonly<Record<string, number>>
  readonly summary: string
}

export interface SearchAnswer {
  readonly rows: readonly SearchRow[]
  /** `hybrid`, `keyword` or `semantic`. */
  readonly ranking: string
  /** No tool is likely to be right; these are the nearest. */
  readonly unanswered: boolean
  /** What a model would be shown. */
  readonly shown: string
  readonly tokens: number
  readonly ms: number
}

export interface CallRow {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly tool: string
  readonly owner: string
  readonly client: string
  readonly principal: string
  readonly profile: string
  readonly ms: number
  /** `ok`, `error` (the tool reported one), `input_required`, or an error code. */
  readonly outcome: string
  readonly bytes?: number
  /** Estimated tokens of the result. */
  readonly tokens?: number
  /** The message of a failed call. */
  readonly error?: string
  readonly hint?: string
  /** File and line of a bug in a drop-in. */
  readonly place?: string
  /** Its arguments are still in memory. */
  readonly replayable: boolean
}

export interface TryAnswer {
  readonly outcome: string
  /** The result as a client receives it, as text. */
  readonly text: string
  readonly ms: number
  readonly tokens: number
}

export interface ClientRow {
  readonly id: string
  readonly name: string
  readonly principal: string
  readonly profile: string
  readonly protocol: string
  /** How its tools are listed. */
  readonly mode: string
  readonly tools: number
  /** What its session has cost so far. Absent before its first call is counted, and with `telemetry.tokens: "off"`. */
  readonly spent?: TokenUsage
}

/** Counted tokens, as `pegboard usage` reports them. */
export interface TokenUsage {
  readonly calls: number
  readonly tokens: number
  /** With every tool listed and every result sent whole. */
  readonly direct: number
}

/** Tokens of one day, UTC. */
export interface DayRow extends TokenUsage {
  /** Such as `2026-11-28`. */
  readonly day: string
  readonly failures: number
}

export interface TokenRow {
  readonly id: string
  readonly name: string
  readonly principal: string
  readonly profile?: string
  readonly roles: readonly string[]
  /** Patterns and effects that it may use; empty: all tools of its profile. */
  readonly limits: readonly string[]
  /** Number of tools that it can use now. */
  readonly tools: number
  readonly createdAt: number
  readonly expiresAt?: number
  readonly expired: boolean
}

export interface LaterRow {
  readonly kind: LaterKind
  readonly id: string
  readonly owner: string
  readonly what: string
  readonly tool?: string
  readonly state: string
  /** Milliseconds since the epoch. */
  readonly nextAt?: number
  readonly at: number
  readonly stoppable: boolean
}
export type LaterKind = 'task' | 'watcher' | 'schedule'
export const LATER_KINDS: readonly LaterKind[] = ['task', 'watcher', 'schedule']

export interface ReviewTool {
  readonly name: string
  readonly state: string
  /** Fingerprint of what is shown. A decision about another one is refused. */
  readonly hash: string
  readonly findings: readonly { readonly level: string; readonly text: string; readonly evidence: string }[]
  readonly changes: readonly { readonly field: string; readonly lines: readonly string[] }[]
  /** The approved definition is not stored on this machine. */
  readonly unknownBefore: boolean
}

export interface ReviewServer {
  readonly id: string
  readonly trust: string
  readonly seen: boolean
  readonly waiting: readonly ReviewTool[]
  readonly rejected: readonly string[]
}

/** Queries that search answered badly, and aliases that would answer them better. */
export interface MissesAnswer {
  /** Number of recorded queries. */
  readonly recorded: number
  readonly proposals: readonly AliasRow[]
  /** Queries that no call followed, the most frequent first. */
  readonly unused: readonly { readonly query: string; readonly times: number }[]
  /** Share of the recorded queries whose tool comes first, without and with all proposals. */
  readonly before: number
  readonly after: number
}

export interface AliasRow {
  readonly tool: string
  readonly alias: string
  /** Rank of the tool for each query; 0: not among the first ten. */
  readonly queries: readonly { readonly query: string; readonly before: number; readonly after: number }[]
  /** The setting that would hold it; absent for tools of modules. */
  readonly setting?: string
}

export interface Overview {
  readonly version: string
  readonly url: string
  readonly profiles: readonly string[]
  readonly mode: string
  readonly why: string
  readonly tools: number
  readonly hidden: number
  /** Estimated tokens of a client's list. */
  readonly listed: number
  /** What all clients have cost since the start; absent as in `ClientRow`. */
  readonly spent?: TokenUsage
  readonly servers: number
  readonly failing: number
  readonly toReview: number
  readonly calls: {
    readonly total: number
    readonly failed: number
    readonly running: number
    readonly lastMinute: number
  }
  readonly clients: number
}

/** A message of the event stream. */
export type LiveEvent =
  | { readonly kind: 'overview'; readonly overview: Overview }
  | { readonly kind: 'owners'; readonly owners: readonly OwnerRow[] }
  | { readonly kind: 'calls'; readonly calls: readonly CallRow[] }
  | { readonly kind: 'clients'; readonly clients: readonly ClientRow[] }
  /** The tools have changed: read the list again. */
  | { readonly kind: 'tools'; readonly version: number }

export interface Problem {
  readonly code: string
  readonly message: string
  readonly hint?: string
}
