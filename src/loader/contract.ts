import type { Catalog } from '../catalog/catalog.ts'
import type { Clock } from '../core/clock.ts'
import type { ServicesFor } from '../core/context.ts'
import type { Log } from '../core/log.ts'
import type { Problem } from './files.ts'
import type { TemplateVars } from './templates.ts'

/** What the configuration says of one module. */
export interface ModuleSetting {
  readonly enabled?: boolean
  readonly config?: unknown
  /** Calls made once when the module is loaded; they pass constraints. */
  readonly setup?: readonly { readonly action: string; readonly params?: unknown }[]
  /** A drop-in of this name replaces the bundled module. */
  readonly override?: boolean
}
export type ModuleSettings = Readonly<Record<string, ModuleSetting>>

export interface LoaderOptions {
  readonly catalog: Catalog
  readonly log: Log
  readonly clock?: Clock
  /** Folders of modules that come with Pegboard, absolute. */
  readonly bundledDirs: readonly string[]
  /** The folder of drop-ins, absolute. It need not exist. */
  readonly modulesDir?: string
  /** Whether a configured server has this name: a bundled module is then called `pegboard_<name>`. */
  readonly isTaken?: (id: string) => boolean
  /** False: only modules that `settings` names. */
  readonly autoload: boolean
  readonly settings: ModuleSettings
  readonly vars: TemplateVars
  /** What `available` may look at of the host; default nothing. */
  readonly servicesFor?: ServicesFor
  /** Runs one set-up step through exec, past constraints; resolves to a `ToolResult`. Rejects when the tool fails. */
  readonly runStep: (toolId: string, params: unknown) => Promise<unknown>
  /** Specifier to file URL for imports of drop-ins; tests only. */
  readonly hostModules?: Readonly<Record<string, string>>
  readonly importTimeoutMs?: number
  /** Called before a drop-in is imported. */
  readonly beforeDropIns?: () => void
  /** Remembers what the drop-ins were like that were loaded last without one that took too long. */
  readonly loadedBefore?: { get(): string | undefined; set(digest: string): void }
  readonly startTimeoutMs?: number
  /** How long a replaced module may go on with the calls it has. */
  readonly drainMs?: number
}

/** What one round of loading did. Module ids; `failed` is all that is broken now. */
export interface Report {
  readonly loaded: readonly string[]
  readonly failed: readonly Problem[]
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly string[]
}

export interface LoaderStatus {
  readonly loaded: readonly {
    readonly id: string
    readonly file: string
    readonly state: 'ready' | 'degraded'
    readonly reason?: string
  }[]
  readonly failed: readonly Problem[]
}

export interface Loader {
  /** Loads everything. Resolves when all modules have started, or failed. */
  loadAll(): Promise<Report>
  /** Reads a module or a file again; without a name all drop-ins. What fails keeps its earlier version. */
  reload(name?: string): Promise<Report>
  /** New settings: modules whose settings changed are started anew. */
  configure(settings: ModuleSettings): Promise<Report>
  /** Follows the folder of drop-ins. Returns what ends it. */
  watch(): () => void
  status(): LoaderStatus
  /** Files that are being imported for the first time, or wait for that: what is in them is not known yet. */
  readonly pending: readonly string[]
  /** What `_` files exported, by stem without `_`. */
  readonly shared: Readonly<Record<string, unknown>>
  /** Stops all modules, last first. Never rejects. */
  stop(): Promise<void>
}
