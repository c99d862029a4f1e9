import type { Readable, Writable } from 'node:stream'
import type { SentFile, ServerStatus } from './context.ts'

/** A file of a message. */
export interface Attachment {
  readonly data: Uint8Array | string
  readonly mimetype: string
  readonly filename: string
  readonly source_url?: string
}

/** A message as it is remembered. Named as chat tools name these things. */
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

/** A message as an adapter takes it in. */
export interface IncomingMessage extends CachedMessage {
  readonly guild_id: string
  readonly attachments: readonly Attachment[]
}

/** What is recorded of a message; who and where default to where the request came from, its id to a new one. */
export type NewMessage = Partial<CachedMessage> & Pick<CachedMessage, 'text'>

/** A key-value store of one module within one profile. Values are anything JSON can say; times are seconds, as in Redis. */
export interface Kv {
  /** `null` when there is none. */
  get(key: string): Promise<unknown>
  /** @throws PegboardError E_TOO_LARGE when the store is full; E_VALIDATION for what JSON cannot say */
  set(key: string, value: unknown, options?: { readonly ttl?: number }): Promise<void>
  /** How many there were. */
  del(...keys: readonly string[]): Promise<number>
  /** Adds to a number, or to 0. @throws PegboardError E_VALIDATION when it is something else */
  incr(key: string, by?: number): Promise<number>
  /**
   * Changes a value whole, whoever else does at the same time. `change` may be called again; with `value` undefined it stays as it is,
   * with null it is deleted. Answers the `result`. A change keeps the time it expires.
   */
  update<Result>(
    key: string,
    change: (value: unknown) => { readonly value?: unknown; readonly result: Result },
  ): Promise<Result>
  /** Whether there is one to expire; at once when `seconds` is not above 0. */
  expire(key: string, seconds: number): Promise<boolean>
  keys(prefix?: string): Promise<readonly string[]>
  /** New length. @throws PegboardError E_VALIDATION when it is no list */
  lpush(key: string, ...values: readonly unknown[]): Promise<number>
  rpush(key: string, ...values: readonly unknown[]): Promise<number>
  lpop(key: string): Promise<unknown>
  rpop(key: string): Promise<unknown>
  /** Both ends included; negative ones count from the end. */
  lrange(key: string, start: number, stop: number): Promise<readonly unknown[]>
  llen(key: string): Promise<number>
  /** Where it is kept. */
  readonly backend: 'file' | 'redis'
  /** The same for all modules of the profile. */
  readonly shared: Kv
}

/** Recent messages of the channels of a profile. */
export interface Messages {
  record(message: NewMessage): Promise<CachedMessage>
  /** The newest `n`, newest first. @param platform default where the request came from */
  recent(channel: string, n?: number, platform?: string): Promise<readonly CachedMessage[]>
  /**
   * The best `k`, best first, of all channels or of one of them.
   * @param platform default where the request came from; of all channels, any
   */
  search(query: string, k?: number, channel?: string, platform?: string): Promise<readonly CachedMessage[]>
}

export interface ConversationEntry {
  readonly message_id: string
  readonly role: 'user' | 'assistant' | 'system' | 'tool'
  readonly content: string
  readonly user_id: string
  readonly user_name: string
  /** Milliseconds since the epoch. */
  readonly timestamp: number
  readonly deleted?: boolean
  /** What was sent along: its name, its type, and where it can be read again. */
  readonly files?: readonly { readonly filename: string; readonly mimetype: string; readonly uri: string }[]
}

/** The last hundred entries of each channel. A platform is by default the one where the request came from. */
export interface Conversations {
  append(
    channel: string,
    entry: Partial<ConversationEntry> & Pick<ConversationEntry, 'role' | 'content'>,
    platform?: string,
  ): Promise<ConversationEntry>
  /** Oldest first, without deleted ones. */
  get(channel: string, n?: number, platform?: string): Promise<readonly ConversationEntry[]>
  /** `null` when there is no such entry. */
  update(
    channel: string,
    messageId: string,
    change: Partial<Pick<ConversationEntry, 'content' | 'files'>>,
    platform?: string,
  ): Promise<ConversationEntry | null>
  /** Marks it as deleted. Whether there was one. */
  delete(channel: string, messageId: string, platform?: string): Promise<boolean>
  /** How many there were. */
  clear(channel: string, platform?: string): Promise<number>
}

/** Something that is to be known in later sessions. */
export interface RememberedFact {
  readonly id: string
  readonly content: string
  /** Milliseconds since the epoch. */
  readonly since: number
}

/** What a principal had remembered in its profile. */
export interface FactStore {
  /** One that is known already is not kept twice. */
  add(content: string): Promise<RememberedFact>
  /** Oldest first. */
  list(): Promise<readonly RememberedFact[]>
  /** Whether there was one. */
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

/** What a principal knows of things and how they belong together. Names are the same in any case. */
export interface Graph {
  /** Adds to the one of that name, where there is one. @throws PegboardError E_TOO_LARGE */
  addEntity(entity: {
    readonly name: string
    readonly type?: string
    readonly observations?: readonly string[]
  }): Promise<Entity>
  /** Makes entities that are not there. Whether it is new. @throws PegboardError E_TOO_LARGE */
  addRelation(relation: Relation): Promise<boolean>
  /** The best `limit` entities with the words of the query, and all relations of theirs; without a query the newest. */
  query(query?: string, limit?: number): Promise<GraphPart>
  /** What an entity is tied to, so many steps away; default one. */
  neighbors(name: string, depth?: number): Promise<GraphPart>
  /** Takes an entity out, and what ties it. Whether there was one. */
  removeEntity(name: string): Promise<boolean>
}

/** Where a strand can be seen. */
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

/** Knowledge that belongs to places of a chat platform, and notes on its users. What changes it is for admins. */
export interface Threadweave {
  /** Keeps a text; with the title of one that is kept, in its place. @throws PegboardError E_DENIED_BY_POLICY, E_TOO_LARGE */
  vaultDna(title: string, content: string): Promise<Strand>
  /** What is woven into any of these places, for admins as for everybody. By id or title, or all. */
  readDna(places: readonly Place[], wanted?: string): Promise<readonly Strand[]>
  /** Makes a text seen in a place. `false`: it was already. @throws PegboardError E_DENIED_BY_POLICY, E_NOT_FOUND */
  weave(strand: string, place: Place): Promise<boolean>
  /** Whether it was woven there. @throws PegboardError E_DENIED_BY_POLICY */
  unweave(strand: string, place: Place): Promise<boolean>
  /** Notes on a user: for admins, and for the user. `null` where there are none. @throws PegboardError E_DENIED_BY_POLICY */
  shadowGet(userId: string): Promise<string | null>
  /** Empty: none. @throws PegboardError E_DENIED_BY_POLICY */
  shadowSet(userId: string, content: string): Promise<void>
}

/** Long-term memory of a caller. */
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

/** Calls that go on in the background. */
export interface Tasks {
  /** `null` for one that is not there or is somebody else's. */
  check(id: string): Promise<TaskState | null>
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

/** What became of names that were to be injected. */
export interface Injection {
  readonly injected: readonly string[]
  readonly unknown: readonly string[]
  readonly already: readonly string[]
}

export interface Reloaded {
  readonly loaded: number
  readonly failed: readonly { readonly file: string; readonly code: string; readonly error: string }[]
}

/** The tools this caller sees. Nothing in it changes one. */
export interface Registry {
  list(): readonly RegistryEntry[]
  /** By any spelling a call takes. */
  get(name: string): RegistryTool | null
  /** Reads module files again. @throws PegboardError E_TOOL_HIDDEN for who is no admin */
  reload(name?: string): Promise<Reloaded>
  /** Has tools listed beside the meta-tools, where lists can change, and found first elsewhere. */
  inject(names: readonly string[]): Injection
}

/** A server, guild or session that an adapter reaches. */
export interface AdapterServer {
  readonly id: string
  readonly name: string
  readonly [more: string]: unknown
}

/** The way to one chat platform. */
export interface PlatformAdapter {
  /** `mcp`, `telegram`. */
  readonly name: string
  send(channel: string, text: string, options?: Readonly<Record<string, unknown>>): Promise<unknown>
  sendFile(channel: string, file: SentFile): Promise<unknown>
  listServers(): Promise<readonly AdapterServer[]>
  /** The platform's own client library. */
  readonly client: unknown
}

export interface Adapters {
  /** A fresh copy. */
  list(): PlatformAdapter[]
  get(name: string): PlatformAdapter | undefined
  /** That of the platform the request came from. */
  readonly current: PlatformAdapter | null
  /** Returns what takes it away again. @throws PegboardError E_NAME_TAKEN */
  add(adapter: PlatformAdapter): () => void
}

/** Messages from chat platforms on their way in. What they say is data: nothing in them is run. */
export interface Incoming {
  /**
   * Hears every message before it is remembered, in the order in which listeners came; one that answers `false` keeps it from those
   * after it, and from being remembered. Returns what ends it.
   */
  hear(listener: (message: IncomingMessage) => Promise<boolean | undefined> | boolean | undefined): () => void
  /** An adapter hands in a message. Whether it was taken in. */
  receive(message: IncomingMessage): Promise<boolean>
}

export interface Completion {
  readonly system?: string
  readonly user: string
  /** One JSON value is wanted, and is read. */
  readonly json?: boolean
  readonly temperature?: number
  /** Default 1,024. */
  readonly maxTokens?: number
  /** A wish; the client or the setting decides. */
  readonly model?: string
}

export interface Completed {
  readonly text: string
  /** With `json`: what the text says. */
  readonly json?: unknown
  readonly model: string
}

/** A language model: the client's, or the one of `services.llm`. */
export interface Llm {
  readonly source: 'sampling' | 'endpoint'
  /** What answers where a completion wishes for none; absent: a client chooses, and an endpoint has to be told. */
  readonly model?: string
  /** @throws PegboardError E_BACKEND_UNAVAILABLE; E_TOOL_FAILED when JSON was wanted and did not come */
  complete(wanted: Completion): Promise<Completed>
}

/** A program to run. No shell reads its arguments. */
export interface ProgramStart {
  readonly command: string
  readonly args?: readonly string[]
  readonly cwd: string
  /** More than the short list that every child gets, and instead of what is in it. */
  readonly env?: Readonly<Record<string, string>>
  /** Names of variables of ours that it gets, too. */
  readonly inherit?: readonly string[]
}

/** What a program and all that it started use now. Zeros where the system does not say. */
export interface ProgramUsage {
  readonly processes: number
  /** Resident memory of all together. */
  readonly bytes: number
}

/** One process of a program. */
export interface ProgramProcess {
  readonly pid: number
  readonly parent: number
  /** Program and arguments, as the system has them. */
  readonly command: string
  /** Resident memory. */
  readonly bytes: number
}

/** What can be sent to a process. */
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

/** A program that runs, in a process group of its own. */
export interface Program {
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** It has ended, its output has been read, and what it left running was ended with it. Never rejects. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>
  usage(): Promise<ProgramUsage>
  /** It and all that it started. Empty where the system does not say. */
  list(): Promise<readonly ProgramProcess[]>
  /** Sends a signal to one of those; false where `pid` is none of them. */
  signal(pid: number, signal: ProgramSignal): boolean
  /** Ends it and what it started: SIGTERM, and SIGKILL after `graceMs` (default 500). */
  stop(graceMs?: number): Promise<void>
}

/** Runs programs that end with Pegboard, however that ends. */
export interface Processes {
  /** As Node names it. */
  readonly platform: string
  /** What a program gets that asks for nothing more: nothing of ours that is secret. */
  environment(inherit?: readonly string[]): Readonly<Record<string, string>>
  /** @throws PegboardError E_NOT_FOUND when there is no such program, E_TOOL_FAILED when it cannot start */
  start(program: ProgramStart): Promise<Program>
}

/** A tool of a server that the caller has. `ctx.call` runs it by its id. */
export interface ServerTool {
  /** Of the server, as the configuration calls it. */
  readonly server: string
  readonly id: string
  /** As clients call it. */
  readonly name: string
  readonly title: string
  readonly description: string
  readonly effect: 'read' | 'write' | 'destructive'
}

/** A resource of a server, or with `isTemplate` a pattern of their addresses. */
export interface ServerResource {
  readonly server: string
  readonly uri: string
  readonly isTemplate: boolean
  /** As the server lists it. */
  readonly entry: Readonly<Record<string, unknown>>
}

export interface ServerPrompt {
  readonly server: string
  /** As clients call it. */
  readonly name: string
  readonly entry: Readonly<Record<string, unknown>>
}

/**
 * The MCP servers of the configuration, as far as the caller may know of them: others, and those of other profiles, are not
 * there. None can be added, and what is started is what the configuration says. Tools are called with `ctx.call`.
 * Servers are named by their id or category; every function throws PegboardError E_NOT_FOUND for one that is not there. In
 * `available` and the like, outside of a call, there is `list` alone.
 */
export interface Servers {
  list(): readonly ServerStatus[]
  /** Starts it if need be, and waits until its lists are read. @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_AUTH_REQUIRED, E_DENIED_BY_POLICY where it is switched off */
  connect(id: string): Promise<ServerStatus>
  /** Ends its connection or process, for everybody, until `connect`. @throws PegboardError E_DENIED_BY_POLICY for who is neither an admin nor alone */
  disconnect(id: string): Promise<ServerStatus>
  /** Both, one after the other. */
  reconnect(id: string): Promise<ServerStatus>
  /** How long one that is connected takes to answer, in milliseconds; `undefined` where it is not connected, which it is not for this. */
  ping(id: string): Promise<number | undefined>
  /** Of one, or of all; what the caller cannot use is left out. */
  listTools(id?: string): readonly ServerTool[]
  listResources(id?: string): readonly ServerResource[]
  /** What the server answered. @throws PegboardError E_NOT_FOUND for an address that is not of this server */
  readResource(id: string, uri: string): Promise<Readonly<Record<string, unknown>>>
  listPrompts(id?: string): readonly ServerPrompt[]
  /** What the server answered. @param name as listed, or the server's own */
  getPrompt(
    id: string,
    name: string,
    args: Readonly<Record<string, string>>,
  ): Promise<Readonly<Record<string, unknown>>>
}
