import type { Catalog } from '../catalog/catalog.ts'
import type { Clock } from '../core/clock.ts'
import type { Debouncer } from '../core/debouncer.ts'
import type { Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import type { Observer } from '../core/observer-types.ts'
import type { RequestOwner } from '../core/tool.ts'
import type { OrphanProcesses } from '../programs/orphan-processes.ts'
import type { Environment } from '../programs/spawn.ts'
import type { Watchdog } from '../programs/watchdog.ts'
import type { Trust } from '../trust/trust.ts'
import type { LostRules } from './catalog-publisher.ts'
import type { ManifestStore } from './manifest.ts'
import type { TokenStore } from './oauth/token-store.ts'
import type { Flood } from './output-throttle.ts'
import type { ClaimStore, Timestamps } from './resource-claims.ts'
import type { SpawnQueue } from './spawn-queue.ts'
import type { StartQueue } from './start-queue.ts'
import type { RecordAndReplay } from './transport.ts'
import type { ServerSettings } from './upstream-settings.ts'

export interface UpstreamHooks {
  /**
   * A log message that belongs to no open call; those of a call go to its caller.
   * @param who whose instance of the server it came from; absent: a shared one
   */
  onLog?(owner: string, params: Json, who?: RequestOwner): void
  onResourceUpdated?(owner: string, uri: string, who?: RequestOwner): void
  /** A task has changed; in the format of the extension. */
  onTask?(owner: string, task: Json): void
}

export interface UpstreamServices extends RecordAndReplay {
  readonly catalog: Catalog
  readonly log: Log
  readonly clock: Clock
  /** Pegboard's own environment, of which child processes get a small part. */
  readonly environment: Environment
  /** Default: that of this process. */
  readonly platform: string
  readonly clientInfo: { readonly name: string; readonly version: string }
  /** Pegboard's own id. Servers that lead back to it are rejected. */
  readonly gateway?: () => string
  readonly manifests?: ManifestStore
  readonly claims?: ClaimStore
  /** Opens the stored logins; absent: no logins. */
  readonly tokens?: () => Promise<TokenStore>
  readonly hooks: UpstreamHooks
  /** Records requests; absent: telemetry is off. */
  readonly observer?: Observer | undefined
  /** Decides which tools are approved; absent: all are. */
  readonly trust?: Trust
  readonly lostRules?: LostRules
  /** Call timeout for servers that set none; default 600,000. Callers' signals usually end calls earlier. */
  readonly callTimeoutMs: number
  /** Default 30,000. */
  readonly connectTimeoutMs: number
  /**
   * For a program that may be downloading, while it has printed nothing; default 180,000, or `connectTimeoutMs` if
   * given.
   */
  readonly installTimeoutMs: number
  /** Maximum line of a stdio server; default 16 MiB. A longer line fails only the call it answers. */
  readonly maxFrameBytes?: number
  /** The same while only call results are expected; default `maxFrameBytes`. */
  readonly maxAnswerBytes?: number
}

export type ProcessServices = Pick<
  UpstreamShared,
  | 'environment'
  | 'platform'
  | 'clock'
  | 'spawnTurn'
  | 'orphans'
  | 'flood'
  | 'reapers'
  | 'watchdog'
  | 'maxFrameBytes'
  | 'maxAnswerBytes'
>

export interface UpstreamShared extends UpstreamServices {
  readonly timestamps: Timestamps
  /** Functions that kill each running child; called when this process exits. */
  readonly reapers: Set<() => void>
  readonly spawnTurn: SpawnQueue
  readonly orphans: OrphanProcesses
  readonly flood: Flood
  readonly watchdog: Watchdog
  readonly saveLater: Debouncer
  readonly startQueue: StartQueue
}

/** One server, for its parts. */
export interface ServerContext {
  readonly id: string
  /** Its owner in the catalog. */
  readonly module: string
  readonly shared: UpstreamShared
  readonly log: Log
  /** Read at each use, because most settings can change while the server runs. */
  settings(): ServerSettings
  /** Timeout of requests in milliseconds. */
  timeoutMs(): number
}
