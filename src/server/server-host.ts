import type { TextTools } from '../agent/tool-use-mode.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Endpoints } from '../catalog/owner.ts'
import type { Caller, SentFile } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import type { Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import type { PromptSection } from '../core/module.ts'
import type { Observer } from '../core/observer-types.ts'
import type { RequestOwner } from '../core/tool.ts'
import type { Tasks } from '../exec/background-tasks.ts'
import type { Inbox } from '../exec/inbox.ts'
import type { ToolCount } from '../exec/usage.ts'
import type { SearchStatus } from '../meta/meta-host.ts'
import type { Surface } from '../meta/surface.ts'
import type { MetricRegistry } from '../observe/metric-registry.ts'
import type { Receipts } from '../receipts/receipts.ts'
import type { ResultStore } from '../results/result-store.ts'
import type { ClientRegistry } from '../services/connected-clients.ts'
import type { SentFiles } from '../services/sent-files.ts'
import type { SharedState } from '../state/shared-state.ts'
import type { Exposure } from '../view/exposure.ts'
import type { View } from '../view/view.ts'
import type { ListCache } from './list-cache.ts'
import type { ProcessRpc } from './process-rpc.ts'
import type { ResumedRequests } from './resumed-requests.ts'
import type { TrustMeta } from './server-options.ts'
import type { TaskBook } from './task-book.ts'
import type { TokenStore } from './token-store.ts'

/** What every part of the server needs. */
export interface BaseHost {
  readonly catalog: Catalog
  readonly surface: Surface
  readonly log: Log
  view(caller: Caller): View
  exposure(caller: Caller): Exposure
  /** Traces requests; absent: tracing is off. */
  readonly observer?: Observer | undefined
  /** Counts tokens; absent: nothing is counted. */
  readonly receipts?: Receipts | undefined
  /** Which claims of a request are trusted. */
  readonly trustMeta: TrustMeta
}

/** For instructions and the system prompt. */
export interface PromptHost extends Pick<BaseHost, 'surface' | 'view' | 'exposure'> {
  /** Text of the operator. */
  readonly instructions: string | undefined
  /** How models get tools; default: by provider. */
  readonly textTools?: TextTools | undefined
  /** Sections that modules add for this caller. */
  sections(caller: Caller): readonly PromptSection[]
  /** Remembered facts of this caller; undefined without any. */
  remembered(caller: Caller): Promise<string | undefined>
}

export interface InspectHost {
  /**
   * Removes credentials from an answer of a server, as the policy of the caller demands.
   * @param owner catalog id of the server; empty if unknown
   * @throws PegboardError E_SECRET_BLOCKED
   */
  inspect<T extends object>(caller: Caller, owner: string, answer: T): T
  /** The same for a question of a server. */
  inspectQuestion(caller: Caller, owner: string, params: unknown): unknown
}

export interface CallHost extends BaseHost, InspectHost {
  readonly clock: Clock
  readonly resumes: ResumedRequests
  readonly tasks: TaskBook
  readonly tasksHere: Tasks
  /** Answers requests about background tasks of this caller. */
  ownTasks(caller: Caller): Endpoints
  /** Lifetime of the result of a background task, in milliseconds. */
  readonly taskTtlMs: number
  /** Calls that take longer become background tasks; 0: never. */
  readonly autoBackgroundMs: number
  readonly files: FileOutlet
  readonly inbox: Inbox
  /** Takes notices of modules for this caller; undefined if no module has any. */
  notices(caller: Caller): (() => Promise<readonly string[]>) | undefined
  /** RPC to other processes; absent without shared state. */
  readonly processes?: ProcessRpc | undefined
}

/** For Pegboard's own resources. */
export interface StatusHost extends BaseHost {
  readonly files: FileOutlet
  /** Results that were too long for a model. */
  readonly results: Pick<ResultStore, 'get' | 'read'>
  readonly inbox: Inbox
  /** Module files that could not be loaded and that the caller may know. */
  failed(caller: Caller): readonly { readonly file: string; readonly error: string; readonly code: string }[]
  searchStatus(): SearchStatus
  /** How often a principal ran each tool. */
  counts(principal: string): readonly ToolCount[]
}

/** For notifications that belong to no request. */
export interface NotificationHost extends BaseHost {
  readonly lists: ListCache
  readonly clients: ClientRegistry
  /** Calls the listener when lists may have changed without a change of the catalog. Returns a function that stops this. */
  onListChange(listener: () => void): () => void
  /** Listens to messages of servers that belong to no request. Returns a function that stops this. */
  onUpstream(listener: UpstreamListener): () => void
}

export interface HttpHost {
  hasProfile(name: string): boolean
  readonly tokens: TokenStore
  /** Metrics for `GET /metrics`; absent: the route does not exist. */
  readonly metrics?: MetricRegistry | undefined
  /** Longest delay of the event loop within the last minute, in milliseconds. */
  lagMs(): number
  /** The reason why this process cannot serve requests now; undefined if it can. */
  ready(): Promise<string | undefined>
  /** State that several processes share; absent: this process is alone. */
  readonly shared?: Pick<SharedState, 'store' | 'publish' | 'subscribe'>
}

/** What the server needs of the rest of Pegboard. Each part of the server takes the host that it needs. */
export interface ServerHost extends CallHost, PromptHost, StatusHost, NotificationHost, HttpHost {
  readonly name: string
  readonly version: string
  /** Ids of this Pegboard and of those behind it. */
  gateways(): readonly string[]
}

/** Makes files of tools readable. */
export interface FileOutlet {
  /** Maximum size of a file inside a result, in bytes; larger files are links. */
  readonly inlineBytes: number
  /** Stores a file and notes it in its conversation. Returns its URI; undefined if there is no room. */
  keep(caller: Caller, file: SentFile): string | undefined
  read: SentFiles['read']
}

export interface UpstreamListener {
  /**
   * @param owner the server; absent: Pegboard
   * @param who the only client that it is for; absent: all that see the server
   */
  log?(message: Json, owner?: string, who?: RequestOwner): void
  /** @param isKnown whether a view has this resource from the server that changed it */
  resourceUpdated?(uri: string, isKnown: (view: View) => boolean, who?: RequestOwner): void
  /** A task of this server changed. @param task in the format of 2026 */
  task?(owner: string, task: Json): void
}
