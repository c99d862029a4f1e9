import type { Catalog } from '../catalog/catalog.ts'
import type { Clock } from '../core/clock.ts'
import type { Later } from '../core/later.ts'
import type { Log } from '../core/log.ts'
import type { Observer } from '../core/observer.ts'
import type { Who } from '../core/tool.ts'
import type { Environment } from '../programs/spawn.ts'
import type { Strays } from '../programs/strays.ts'
import type { Watchdog } from '../programs/watchdog.ts'
import type { Trust } from '../trust/trust.ts'
import type { Flood } from './intake.ts'
import type { ManifestStore } from './manifest.ts'
import type { TokenStore } from './oauth/store.ts'
import type { LostRules } from './publish.ts'
import type { Starts } from './starts.ts'
import type { Turns } from './turns.ts'

type Json = Readonly<Record<string, unknown>>

export interface UpstreamHooks {
  /**
   * A log message of an owner in the catalogue that belongs to no call in flight; those of a call went to its caller.
   * @param who whose instance of the server it came from; absent: it is shared
   */
  onLog?(owner: string, params: Json, who?: Who): void
  onResourceUpdated?(owner: string, uri: string, params: Json): void
  /** A task of an owner in the catalogue changed; told as the extension tells it. */
  onTask?(owner: string, task: Json): void
}

/** What all servers of a gateway share. */
export interface UpstreamShared {
  readonly catalog: Catalog
  readonly log: Log
  readonly clock: Clock
  readonly environment: Environment
  readonly platform: string
  readonly clientInfo: { readonly name: string; readonly version: string }
  /** Our own id among Pegboards. */
  readonly gateway?: (() => string) | undefined
  readonly manifests: ManifestStore | undefined
  /** Logins at remote servers; opened when the first of them is connected. Absent: none are used. */
  readonly tokens?: (() => Promise<TokenStore>) | undefined
  readonly hooks: UpstreamHooks
  /** Told of requests; absent: nobody. */
  readonly observer: Observer | undefined
  /** Decides which tools are let in; without it all are. */
  readonly trust: Trust | undefined
  readonly lostRules: LostRules | undefined
  readonly callTimeoutMs: number
  readonly connectTimeoutMs: number
  /** For a program that may be downloading itself, as long as it has said nothing. */
  readonly installTimeoutMs: number
  readonly maxFrameBytes: number | undefined
  readonly maxAnswerBytes: number | undefined
  /** Ends every live child at once; for the last moment of this process. */
  readonly reapers: Set<() => void>
  /** Processes are started one after the other. */
  readonly starts: Starts
  /** Finds what outlived its server. */
  readonly strays: Strays
  readonly flood: Flood
  /** Ends children that this process cannot end any more. */
  readonly watchdog: Watchdog
  /** For what is kept for the next start. */
  readonly later: Later
  /** For looking at all tools of servers that came while calls waited for them. */
  readonly unread: Later
  /** Servers never seen before are looked at a few at a time. */
  readonly turns: Turns
}
