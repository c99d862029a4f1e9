import type { Catalog } from '../catalog/catalog.ts'
import type { Config } from '../config/load-config.ts'
import type { Environment } from '../config/machine.ts'
import type { Caller } from '../core/caller.ts'
import type { Log } from '../core/log.ts'
import type { Observer } from '../core/observer-types.ts'
import type { EmbeddingTable } from '../search/embedding-table.ts'
import type { View } from '../view/view.ts'
import type { Views } from '../view/views.ts'
import type { AppState } from './app-state.ts'
import type { LiveSettings } from './live-settings.ts'
import type { Package } from './package-info.ts'
import type { SecretGuard } from './secret-guard.ts'

/** What every part of an app gets. The options of a part extend this. */
export interface AppBase {
  /** The configuration at the start. Read sections that can change while Pegboard runs from `settings.config`. */
  readonly config: Config
  readonly settings: LiveSettings
  readonly state: AppState
  readonly catalog: Catalog
  readonly views: Views
  view(caller: Caller): View
  readonly log: Log
  readonly env: Environment
  readonly packageInfo: Package
  readonly table: () => EmbeddingTable
  readonly secrets: SecretGuard
  readonly observer: Observer | undefined
}
