import type { TextTools } from '../agent/mode.ts'
import type { Catalog, Endpoints } from '../catalog/catalog.ts'
import type { Clock } from '../core/clock.ts'
import type { Caller, SentFile } from '../core/context.ts'
import type { Log } from '../core/log.ts'
import type { PromptSection } from '../core/module.ts'
import type { Observer } from '../core/observer.ts'
import type { Who } from '../core/tool.ts'
import type { Inbox } from '../exec/inbox.ts'
import type { Tasks } from '../exec/tasks.ts'
import type { ToolCount } from '../exec/usage.ts'
import type { SearchStatus } from '../meta/host.ts'
import type { Surface } from '../meta/surface.ts'
import type { Registry } from '../observe/registry.ts'
import type { Clients } from '../services/clients.ts'
import type { SentFiles } from '../services/sent-files.ts'
import type { Shared } from '../state/shared.ts'
import type { Exposure } from '../view/exposure.ts'
import type { View } from '../view/view.ts'
import type { Elsewhere } from './elsewhere.ts'
import type { Lists } from './lists.ts'
import type { TrustMeta } from './options.ts'
import type { Resumes } from './resume.ts'
import type { TaskBook } from './task-book.ts'
import type { Tokens } from './tokens.ts'

/** What the wire needs of the rest. */
export interface ServerHost {
  readonly name: string
  readonly version: string
  readonly instructions: string | undefined
  /** How the operator wants tools given to models; default by provider. */
  readonly textTools?: TextTools | undefined
  /** What modules add to the prompt for this caller. */
  sections(caller: Caller): readonly PromptSection[]
  /** What this caller had remembered, for its prompt. */
  remembered(caller: Caller): Promise<string | undefined>
  readonly catalog: Catalog
  readonly surface: Surface
  /** Ids of this Pegboard and of those behind it. */
  gateways(): readonly string[]
  readonly lists: Lists
  readonly log: Log
  /** What requests may say of themselves. */
  readonly trustMeta: TrustMeta
  hasProfile(name: string): boolean
  /** Bearer tokens that were made with `pegboard token`. */
  readonly tokens: Tokens
  view(caller: Caller): View
  exposure(caller: Caller): Exposure
  /** Some tools are still to be looked at, which nobody waits for. */
  unread?(): boolean
  readonly resumes: Resumes
  readonly tasks: TaskBook
  /** Who is connected now. */
  readonly clients: Clients
  readonly files: FileOutlet
  /** Told when a caller's list may have changed though the catalogue has not. */
  onListChange(listener: () => void): () => void
  /** Work that outlives a call, and requests about it. */
  readonly tasksHere: Tasks
  ownTasks(caller: Caller): Endpoints
  readonly taskTtlMs: number
  /** Calls that take longer become tasks; 0 never. */
  readonly autoBackgroundMs: number
  readonly clock: Clock
  /** Told of requests; absent: nobody. */
  readonly observer?: Observer | undefined
  /** What `GET /metrics` tells; absent: there is no such address. */
  readonly metrics?: Registry | undefined
  /** Lines for clients that were not listening. */
  readonly inbox: Inbox
  /** Takes what modules have to tell this caller; absent where none ever has anything. */
  notices(caller: Caller): (() => Promise<readonly string[]>) | undefined
  /** Module files that could not be loaded, as far as a caller may know of them. */
  failed(caller: Caller): readonly { readonly file: string; readonly error: string; readonly code: string }[]
  /** What an owner answered, without credentials, as far as this caller's policy wants that. @throws PegboardError E_SECRET_BLOCKED */
  inspect<T extends object>(caller: Caller, owner: string, answer: T): T
  /** The same for what it asks. */
  inspectQuestion(caller: Caller, owner: string, params: unknown): unknown
  /** How long the event loop stood still at most within the last minute. */
  lagMs(): number
  /** What keeps it from doing its work now, in words for anybody; `undefined`: nothing. */
  ready(): Promise<string | undefined>
  /** What other processes have in common with this one; absent where it is alone. */
  readonly shared?: Pick<Shared, 'store' | 'tell' | 'hear'>
  /** What only another of them can do. */
  readonly elsewhere?: Elsewhere | undefined
  /** What search can do now. */
  searchStatus(): SearchStatus
  /** How often a principal ran each tool. */
  counts(principal: string): readonly ToolCount[]
  /** Log messages and resource updates that upstreams send on their own. Returns how to stop listening. */
  onUpstream(listener: UpstreamListener): () => void
}

/** Where files that tools send become readable. */
export interface FileOutlet {
  /** Longer files are links in a result. */
  readonly inlineBytes: number
  /** Answers the address it can be read by, and notes it in the conversation it belongs to; undefined: there is no room. */
  keep(caller: Caller, file: SentFile): string | undefined
  read: SentFiles['read']
}

export interface UpstreamListener {
  /**
   * @param owner whose message it is; absent: our own
   * @param who whom it is for alone; absent: everybody who sees the owner
   */
  log?(message: Readonly<Record<string, unknown>>, owner?: string, who?: Who): void
  resourceUpdated?(owner: string, uri: string): void
  /** A task of this owner changed; told as the extension tells it. */
  task?(owner: string, task: Readonly<Record<string, unknown>>): void
}
