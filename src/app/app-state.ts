import { basename, dirname, join } from 'node:path'
import type { Config } from '../config/load-config.ts'
import { type Clock, systemClock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { createFileTokenStore, createSharedTokenStore, type TokenStore } from '../server/token-store.ts'
import { createCommonClock } from '../state/common-clock.ts'
import { MAX_DEPTH, removeLeftovers } from '../state/remove-leftovers.ts'
import { createLocalState, createRedisState, type SharedState } from '../state/shared-state.ts'
import { lockFile } from '../trust/lock-file.ts'

/** What survives a restart, or is shared with other processes. */
export interface AppState {
  /** The clock of all processes that share the state. */
  readonly clock: Clock
  /** True if `state.url` names a store that other processes use, too. */
  readonly isShared: boolean
  readonly shared: SharedState
  readonly tokens: TokenStore
  /** Connects to a shared store. @throws PegboardError E_STATE */
  open(): Promise<void>
}

export function createAppState({ state, dirs }: Pick<Config, 'state' | 'dirs'>, localClock: Clock, log: Log): AppState {
  const tokenLog = log.scoped('tokens')
  const withTokens = (shared: SharedState, tokens: TokenStore, clock: Clock): AppState => ({
    clock,
    isShared: state.url !== undefined,
    shared,
    tokens,
    async open() {
      await shared.open()
      await tokens.open()
    },
  })
  if (state.url !== undefined) {
    const clock = createCommonClock(localClock)
    const shared = createRedisState(state.url, state.prefix, clock, log.scoped('state'))
    return withTokens(shared, createSharedTokenStore(shared, clock, tokenLog), clock)
  }
  const files = {
    database: join(dirs.state, 'state.db'),
    key: join(dirs.state, 'state.key'),
    ...(state.exclusive ? { lock: join(dirs.state, 'alone.db') } : {}),
  }
  const shared = createLocalState(files, localClock, log)
  return withTokens(shared, createFileTokenStore(join(dirs.state, 'tokens'), localClock, tokenLog), localClock)
}

/** Opens the state for a command. It ignores `state.exclusive`, because a server may run. @throws PegboardError E_STATE */
export async function openAppState({ state, dirs }: Config, log: Log): Promise<AppState> {
  const opened = createAppState({ state: { ...state, exclusive: false }, dirs }, systemClock, log)
  await opened.open()
  return opened
}

/** Removes temporary files of earlier processes that were killed while they wrote. */
export async function removeAppLeftovers({ dirs, file }: Pick<Config, 'dirs' | 'file'>): Promise<void> {
  await Promise.all([dirs.state, dirs.cache].map((folder) => removeLeftovers(folder)))
  const lock = lockFile(file)
  if (lock !== undefined)
    await removeLeftovers(dirname(lock), (name) => name.startsWith(`${basename(lock)}.`), MAX_DEPTH)
}
