import type { Catalog } from '../catalog/catalog.ts'
import type { ToolSource } from '../catalog/tool-source.ts'
import type { ServicesFor } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { LoadProblem } from './module-files.ts'
import type { TemplateVars } from './templates.ts'

export interface ModuleSetting {
  readonly enabled?: boolean
  readonly config?: unknown
  /** Calls made once when the module is loaded. They skip constraints. */
  readonly setup?: readonly { readonly action: string; readonly params?: unknown }[]
  /** A drop-in of this name replaces the bundled module. */
  readonly override?: boolean
}
export type ModuleSettings = Readonly<Record<string, ModuleSetting>>

export interface LoaderOptions {
  readonly catalog: Catalog
  readonly log: Log
  readonly clock?: Clock
  /** Folders of bundled modules, absolute. */
  readonly bundledDirs: readonly string[]
  /** The folder of drop-ins, absolute. It need not exist. */
  readonly modulesDir?: string
  /**
   * True if the configuration has options for this bundled module; default all. A module without options may be off,
   * and is then not imported.
   */
  readonly isOn?: (id: string) => boolean
  /** True if a configured server has this name. The bundled module is then called `pegboard_<name>`. */
  readonly isTaken?: (id: string) => boolean
  /** False: load only modules that `settings` names. */
  readonly autoload: boolean
  readonly settings: ModuleSettings
  readonly vars: TemplateVars
  /** The part of the host that `available` may read; default nothing. */
  readonly servicesFor?: ServicesFor
  /** Runs one set-up step without constraints; resolves to a `ToolResult`. Rejects if the tool fails. */
  readonly runStep: (toolId: string, params: unknown) => Promise<unknown>
  /** Specifier to file URL for imports of drop-ins; tests only. */
  readonly hostModules?: Readonly<Record<string, string>>
  readonly importTimeoutMs?: number
  /** Called before a drop-in is imported. */
  readonly beforeDropIns?: () => void
  /** Stores the state of the drop-ins after a load without a timeout. */
  readonly loadedBefore?: { get(): string | undefined; set(digest: string): void }
  readonly startTimeoutMs?: number
}

/** The result of one load. Contains module ids; `failed` lists all broken modules. */
export interface Report {
  readonly loaded: readonly string[]
  readonly failed: readonly LoadProblem[]
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
  readonly failed: readonly LoadProblem[]
  /** Tools that several files define, and unknown options of modules, as sentences. */
  readonly warnings: readonly string[]
}

export interface Loader extends ToolSource<ModuleSettings, LoaderStatus> {
  /** Loads everything. Resolves when all modules have started, or failed. */
  start(): Promise<Report>
  /** Reloads a module or a file; without a name, all drop-ins. A module that fails keeps its earlier version. */
  reload(name?: string): Promise<Report>
  /** Applies new settings: restarts modules whose settings changed. */
  configure(settings: ModuleSettings): Promise<Report>
  /** Watches the folder of drop-ins. Returns a function that stops watching. */
  watch(): () => void
  status(): LoaderStatus
  /** Files whose first import is running or pending, so their tools are unknown. */
  readonly pending: readonly string[]
  /** The folder of drop-ins, absolute and without links; undefined if there is none. */
  readonly dropIns: readonly string[]
  /** Exports of helper files, by file name without `_` and extension. */
  readonly shared: Readonly<Record<string, unknown>>
  /** Stops all modules, last first. Never rejects. */
  stop(): Promise<void>
}
