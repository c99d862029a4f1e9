import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { RecentCalls } from '../exec/recent-calls.ts'
import type { Calls } from '../exec/tool-calls.ts'
import type { ClientRegistry } from '../services/connected-clients.ts'
import type { SharedState } from '../state/shared-state.ts'
import type { TokenStore } from '../upstream/oauth/token-store.ts'
import type { App } from './app.ts'
import type { DeferredWork } from './deferred-work.ts'

/** What the functions behind the page share. */
export interface UiContext {
  readonly app: App
  config(): Config
  readonly clock: Clock
  readonly log: Log
  /** The operator in a profile. */
  caller(profile: string): Caller
  readonly calls: Calls
  readonly recent: RecentCalls
  readonly clients: ClientRegistry
  readonly deferred: DeferredWork
  readonly shared: SharedState
  logins(): Promise<TokenStore>
  /** A text without secrets and terminal commands. */
  toSafeText(text: string): string
}

/** The error for a name that does not exist, because the page shows an older state. */
export const notFound = (what: string, name: string): PegboardError =>
  new PegboardError('E_NOT_FOUND', `There is no ${what} "${name.slice(0, 80)}".`, { hint: 'Reload the page.' })
