import type { Readable, Writable } from 'node:stream'
import type { SentFile, ServerStatus } from './caller.ts'

export interface Attachment extends Omit<SentFile, 'fileUrl'> {
  readonly source_url?: string
}

/** A stored message, with the field names of chat tools. */
export interface CachedMessage {
  readonly user_id: string
  readonly user_name: string
  readonly platform: string
  readonly channel_id: string
  readonly text: string
  /** Milliseconds since the epoch. */
  readonly timestamp: number
  readonly message_id: string
  readonly reply_to_id: string
}

/** A message as an adapter receives it. */
export interface IncomingMessage extends CachedMessage {
  readonly guild_id: string
  readonly attachments: readonly Attachment[]
}

/** A message to record. Missing fields come from the origin of the request; the id defaults to a new one. */
export type NewMessage = Partial<CachedMessage> & Pick<CachedMessage, 'text'>

/** A key-value store of one module within one profile. Values are JSON values; times are in seconds, as in Redis. */
export interface Kv {
  /** `null` if the key does not exist. */
  get(key: string): Promise<unknown>
  /** @throws PegboardError E_TOO_LARGE if the store is full; E_VALIDATION for values that JSON cannot represent */
  set(key: string, value: unknown, options?: { readonly ttl?: number }): Promise<void>
  /** Returns how many keys existed. */
  del(...keys: readonly string[]): Promise<number>
  /** Adds to a number; a missing key counts as 0. @throws PegboardError E_VALIDATION if the value is not a number */
  incr(key: string, by?: number): Promise<number>
  /**
   * Changes a value atomically. `change` may run more than once; it returns a `value` (undefined keeps, null deletes)
   * and the `result` to return. Keeps the expiry time.
   */
  update<Result>(
    key: string,
    change: (value: unknown) => { readonly value?: unknown; readonly result: Result },
  ): Promise<Result>
  /** Returns whether the key existed; expires it at once if `seconds` is 0 or less. */
  expire(key: string, seconds: number): Promise<boolean>
  keys(prefix?: string): Promise<readonly string[]>
  /** Returns the new length. @throws PegboardError E_VALIDATION if the value is not a list */
  lpush(key: string, ...values: readonly unknown[]): Promise<number>
  rpush(key: string, ...values: readonly unknown[]): Promise<number>
  lpop(key: string): Promise<unknown>
  rpop(key: string): Promise<unknown>
  /** Both ends are inclusive; negative indexes count from the end. */
  lrange(key: string, start: number, stop: number): Promise<readonly unknown[]>
  llen(key: string): Promise<number>
  readonly backend: 'file' | 'redis'
  /** A store that all modules of the profile share. */
  readonly shared: Kv
}

/** Recent messages of the channels of a profile. */
export interface Messages {
  record(message: NewMessage): Promise<CachedMessage>
  /** The newest `n`, newest first. @param platform default: that of the request */
  recent(channel: string, n?: number, platform?: string): Promise<readonly CachedMessage[]>
  /**
   * The best `k` of all channels or of one channel, best first.
   * @param platform default: that of the request; any platform if no channel is given
   */
  search(query: string, k?: number, channel?: string, platform?: string): Promise<readonly CachedMessage[]>
}

export interface ConversationEntry extends Pick<CachedMessage, 'message_id' | 'user_id' | 'user_name' | 'timestamp'> {
  readonly role: 'user' | 'assistant' | 'system' | 'tool'
  readonly content: string
  readonly deleted?: boolean
  /** Attachments: name, type, and the address to read them again. */
  readonly files?: readonly { readonly filename: string; readonly mimetype: string; readonly uri: string }[]
}

/** The last hundred entries of each channel. The platform defaults to that of the request. */
export interface Conversations {
  append(
    channel: string,
    entry: Partial<ConversationEntry> & Pick<ConversationEntry, 'role' | 'content'>,
    platform?: string,
  ): Promise<ConversationEntry>
  /** Oldest first, without deleted entries. */
  get(channel: string, n?: number, platform?: string): Promise<readonly ConversationEntry[]>
  /** `null` if the entry does not exist. */
  update(
    channel: string,
    messageId: string,
    change: Partial<Pick<ConversationEntry, 'content' | 'files'>>,
    platform?: string,
  ): Promise<ConversationEntry | null>
  /** Marks an entry as deleted. Returns whether it existed. */
  delete(channel: string, messageId: string, platform?: string): Promise<boolean>
  /** Returns how many there were. */
  clear(channel: string, platform?: string): Promise<number>
}

/** A fact that later sessions should know. */
export interface RememberedFact {
  readonly id: string
  readonly content: string
  /** Milliseconds since the epoch. */
  readonly since: number
}

/** The facts of a principal in its profile. */
export interface FactStore {
  /** A fact that is already stored is not stored twice. */
  add(content: string): Promise<RememberedFact>
  /** Oldest first. */
  list(): Promise<readonly RememberedFact[]>
  /** Returns whether it existed. */
  forget(id: string): Promise<boolean>
}

export interface Entity {
  readonly name: string
  readonly type: string
  readonly observations: readonly string[]
}

export interface Relation {
  readonly from: string
  readonly relation: string
  readonly to: string
}

export interface GraphPart {
  readonly entities: readonly Entity[]
  readonly relations: readonly Relation[]
}

/** A principal's knowledge graph. Names are case-insensitive. */
export interface Graph {
  /** Creates an entity or adds to the existing one of that name. @throws PegboardError E_TOO_LARGE */
  addEntity(entity: {
    readonly name: string
    readonly type?: string
    readonly observations?: readonly string[]
  }): Promise<Entity>
  /** Creates missing entities. Returns whether the relation is new. @throws PegboardError E_TOO_LARGE */
  addRelation(relation: Relation): Promise<boolean>
  /** The best `limit` entities for the query with all their relations; the newest if there is no query. */
  query(query?: string, limit?: number): Promise<GraphPart>
  /** Entities connected to this one within `depth` steps; default one. */
  neighbors(name: string, depth?: number): Promise<GraphPart>
  /** Removes an entity and its relations. Returns whether it existed. */
  removeEntity(name: string): Promise<boolean>
}

/** Where a strand is visible. */
export type WeaveScope = 'channel' | 'category' | 'guild'

export interface Strand {
  readonly id: string
  readonly title: string
  readonly content: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

export interface Place {
  readonly scope: WeaveScope
  readonly id: string
}

/** Knowledge attached to places of a chat platform, and notes about its users. Only admins can change it. */
export interface Threadweave {
  /** Stores a text, replacing one with the same title. @throws PegboardError E_DENIED_BY_POLICY, E_TOO_LARGE */
  vaultDna(title: string, content: string): Promise<Strand>
  /** Texts attached to any of these places, for any caller; by id or title, or all. */
  readDna(places: readonly Place[], idOrTitle?: string): Promise<readonly Strand[]>
  /**
   * Attaches a text to a place. Returns `false` if it was attached already.
   * @throws PegboardError E_DENIED_BY_POLICY, E_NOT_FOUND
   */
  weave(strand: string, place: Place): Promise<boolean>
  /** Detaches a text from a place. Returns whether it was attached. @throws PegboardError E_DENIED_BY_POLICY */
  unweave(strand: string, place: Place): Promise<boolean>
  /**
   * Notes about a user, for admins and for that user. `null` if there are none.
   * @throws PegboardError E_DENIED_BY_POLICY
   */
  shadowGet(userId: string): Promise<string | null>
  /** An empty text removes the notes. @throws PegboardError E_DENIED_BY_POLICY */
  shadowSet(userId: string, content: string): Promise<void>
}

export interface Memory {
  readonly facts: FactStore
  readonly graph: Graph
  readonly threadweave: Threadweave
}

export interface TaskState {
  readonly status: string
  readonly result?: unknown
  readonly error?: string
}

/** Background calls. */
export interface Tasks {
  /** `null` if the task does not exist or belongs to another caller. */
  check(id: string): Promise<TaskState | null>
  /** The caller, to store with work that another process resumes. */
  readonly owner: unknown
  /** False once the token of the caller, or of a stored owner, is revoked; background work must then end. */
  mayGoOn(owner?: unknown): boolean
  /** True if a stored owner still has access and may call the tool that began the work. */
  mayResume(owner: unknown, tool: string): boolean
}

export interface RegistryEntry {
  readonly name: string
  readonly description: string
  readonly category: string
  readonly effect: 'read' | 'write' | 'destructive'
}

export interface RegistryTool extends RegistryEntry {
  readonly parameters: Readonly<Record<string, unknown>>
  readonly tags: readonly string[]
  readonly aliases: readonly string[]
}

/** The outcome of an injection request, by name. */
export interface Injection {
  readonly injected: readonly string[]
  readonly unknown: readonly string[]
  readonly already: readonly string[]
}

export interface ReloadResult {
  readonly loaded: number
  readonly failed: readonly { readonly file: string; readonly code: string; readonly error: string }[]
}

/** The tools that this caller sees, read-only. */
export interface Registry {
  list(): readonly RegistryEntry[]
  /** Accepts every spelling that a call accepts. */
  get(name: string): RegistryTool | null
  /** Reads module files again. @throws PegboardError E_TOOL_HIDDEN if the caller is not an admin */
  reload(name?: string): Promise<ReloadResult>
  /** Lists tools beside the meta-tools if the client supports changing lists; otherwise ranks them first in search. */
  inject(names: readonly string[]): Injection
}

/** A server, guild or session that an adapter reaches. */
export interface AdapterServer {
  readonly id: string
  readonly name: string
  readonly [more: string]: unknown
}

/** The connection to one chat platform. */
export interface PlatformAdapter {
  /** For example `telegram`. */
  readonly name: string
  send(channel: string, text: string, options?: Readonly<Record<string, unknown>>): Promise<unknown>
  sendFile(channel: string, file: SentFile): Promise<unknown>
  listServers(): Promise<readonly AdapterServer[]>
  /** The platform's own client library. */
  readonly client: unknown
}

export interface Adapters {
  /** Returns a new list. */
  list(): PlatformAdapter[]
  get(name: string): PlatformAdapter | undefined
  /** The adapter of the request's platform. */
  readonly current: PlatformAdapter | null
  /** Returns a function that removes the adapter. @throws PegboardError E_NAME_TAKEN */
  add(adapter: PlatformAdapter): () => void
}

/** Incoming messages of chat platforms. Their content is data and is never executed. */
export interface Incoming {
  /**
   * Registers a listener for every message before it is stored. Listeners run in order; if one returns `false`, later
   * ones do not get the message and it is not stored. Returns a function that removes the listener.
   */
  hear(listener: (message: IncomingMessage) => Promise<boolean | undefined> | boolean | undefined): () => void
  /** Called by an adapter for each message. Returns whether it was accepted. */
  receive(message: IncomingMessage): Promise<boolean>
}

export interface CompletionRequest {
  readonly system?: string
  readonly user: string
  /** Request one JSON value and parse it. */
  readonly json?: boolean
  readonly temperature?: number
  /** Default 1,024. */
  readonly maxTokens?: number
  /** A preference; the client or the setting decides. */
  readonly model?: string
}

export interface CompletionResult {
  readonly text: string
  /** With `json`: the parsed value. */
  readonly json?: unknown
  readonly model: string
}

/** A language model: the client's, or that of `services.llm`. */
export interface Llm {
  readonly source: 'sampling' | 'endpoint'
  /** The model used if a completion names none. Absent: the client chooses, or the endpoint needs a name. */
  readonly model?: string
  /** @throws PegboardError E_BACKEND_UNAVAILABLE; E_TOOL_FAILED if JSON was requested and not returned */
  complete(request: CompletionRequest): Promise<CompletionResult>
}

/** A program to run, without a shell. */
export interface ProgramStart {
  readonly command: string
  readonly args?: readonly string[]
  readonly cwd: string
  /** Variables added to, or replacing, the short list that every child gets. */
  readonly env?: Readonly<Record<string, string>>
  /** Names of Pegboard's own variables to pass on. */
  readonly inherit?: readonly string[]
}

/** Current resource use of a program and everything it started. Zeros if the system does not report it. */
export interface ProgramUsage {
  readonly processes: number
  /** Total resident memory. */
  readonly bytes: number
}

export interface ProgramProcess {
  readonly pid: number
  readonly parent: number
  /** Program and arguments, as the system reports them. */
  readonly command: string
  /** Resident memory. */
  readonly bytes: number
}

/** Signals that can be sent to a process. */
export type ProgramSignal =
  | 'SIGINT'
  | 'SIGTERM'
  | 'SIGKILL'
  | 'SIGHUP'
  | 'SIGQUIT'
  | 'SIGUSR1'
  | 'SIGUSR2'
  | 'SIGSTOP'
  | 'SIGCONT'

/** A running program, in its own process group. */
export interface Program {
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Resolves when the program and all that it started have exited, and its output has been read. Never rejects. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>
  usage(): Promise<ProgramUsage>
  /** The program and everything it started. Empty if the system does not report it. */
  list(): Promise<readonly ProgramProcess[]>
  /** Sends a signal to one of these processes; returns false if `pid` is not one of them. */
  signal(pid: number, signal: ProgramSignal): boolean
  /** Stops the program and all that it started: SIGTERM, then SIGKILL after `graceMs` (default 500). */
  stop(graceMs?: number): Promise<void>
}

/** Runs programs that exit with Pegboard, even if Pegboard is killed. */
export interface Processes {
  /** As in `process.platform`. */
  readonly platform: string
  /** The default environment of a program; contains no secrets of Pegboard. */
  environment(inherit?: readonly string[]): Readonly<Record<string, string>>
  /** @throws PegboardError E_NOT_FOUND if the program does not exist, E_TOOL_FAILED if it cannot start */
  start(program: ProgramStart): Promise<Program>
}

/** A server's tool that the caller can use. `ctx.call` runs it by id. */
export interface ServerTool {
  /** Id of the server in the configuration. */
  readonly server: string
  readonly id: string
  /** Name for clients. */
  readonly name: string
  readonly title: string
  readonly description: string
  readonly effect: 'read' | 'write' | 'destructive'
}

/** A server's resource, or with `isTemplate` a resource template. */
export interface ServerResource {
  readonly server: string
  readonly uri: string
  readonly isTemplate: boolean
  /** As the server lists it. */
  readonly entry: Readonly<Record<string, unknown>>
}

export interface ServerPrompt {
  readonly server: string
  /** Name for clients. */
  readonly name: string
  readonly entry: Readonly<Record<string, unknown>>
}

/**
 * The configured MCP servers that the caller may see. Servers cannot be added, and only configured ones can be
 * started. Tools are called with `ctx.call`. Every function accepts a server's id or category and throws
 * PegboardError E_NOT_FOUND for an unknown one. Outside a call, for example in `available`, only `list` and
 * `hasAny` exist.
 */
export interface Servers {
  list(): readonly ServerStatus[]
  /** True if `list` is not empty. For `available`, because it does not read the state of each server. */
  hasAny(): boolean
  /**
   * Policy rules that match no tool, or name one tool and match several, as sentences. For the operator and admins;
   * empty for others, and while servers are still connecting.
   */
  unmatchedRules(): readonly string[]
  /**
   * Starts the server if necessary and waits until its lists are read.
   * @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_AUTH_REQUIRED, E_DENIED_BY_POLICY if it is
   * disabled
   */
  connect(id: string): Promise<ServerStatus>
  /**
   * Closes the connection or ends the process, for all callers, until `connect`.
   * @throws PegboardError E_DENIED_BY_POLICY unless the caller is an admin or the only user
   */
  disconnect(id: string): Promise<ServerStatus>
  /** Disconnects and connects. */
  reconnect(id: string): Promise<ServerStatus>
  /** Round-trip time of a connected server in milliseconds; `undefined` if it is not connected. Does not connect. */
  ping(id: string): Promise<number | undefined>
  /** Tools of one server, or of all; only those the caller can use. */
  listTools(id?: string): readonly ServerTool[]
  listResources(id?: string): readonly ServerResource[]
  /** The server's answer. @throws PegboardError E_NOT_FOUND if no resource of this server has the URI */
  readResource(id: string, uri: string): Promise<Readonly<Record<string, unknown>>>
  listPrompts(id?: string): readonly ServerPrompt[]
  /** The server's answer. @param name as listed, or the server's own name */
  getPrompt(
    id: string,
    name: string,
    args: Readonly<Record<string, string>>,
  ): Promise<Readonly<Record<string, unknown>>>
}
