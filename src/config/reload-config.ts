import { hash } from 'node:crypto'
import { type FSWatcher, mkdirSync, readFileSync, watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type Clock, systemClock } from '../core/clock.ts'
import { isResourceExhausted } from '../core/error-codes.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { assertRegularFile } from '../core/regular-file.ts'
import type { Config } from './load-config.ts'
import type { Machine } from './machine.ts'
import { secretNames } from './variables.ts'

/** Changed keys, such as `modules.filesystem`, `mcpServers.github`, `exposure.share` or `server.http`. */
export interface ReloadPlan {
  /** Applied without a restart. Open sessions keep their exposure mode. */
  readonly live: readonly string[]
  /** Applied at the next start. */
  readonly restart: readonly string[]
}

type Section = keyof Config

const LIVE: readonly Section[] = ['modules', 'servers', 'openapi', 'policy', 'exposure', 'tools', 'profiles', 'clients']
/** What a server does not use, and what is derived from other sections. */
const UNREPORTED: readonly Section[] = ['registry', 'file', 'missing', 'published', 'secrets', 'skipped']

/** Sections whose changes apply at the next start. */
export const restartSections = (config: Config): readonly Section[] =>
  (Object.keys(config) as Section[]).filter((section) => !LIVE.includes(section) && !UNREPORTED.includes(section))

export function planReload(before: Config, after: Config): ReloadPlan {
  const changed = (sections: readonly Section[]): string[] =>
    sections.flatMap((section) => findDifferences(section, before[section], after[section]))
  const skipped = findDifferences('mcpServers', reasonsById(before), reasonsById(after))
  return { live: [...new Set([...changed(LIVE), ...skipped])], restart: changed(restartSections(after)) }
}

/** Why server entries are ignored. */
const reasonsById = ({ skipped }: Config): Record<string, string> =>
  Object.fromEntries(skipped.map(({ id, reason }) => [id, reason]))

function findDifferences(section: string, before: unknown, after: unknown): string[] {
  if (!isRecord(before) || !isRecord(after)) return isDeepStrictEqual(before, after) ? [] : [section]
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return keys
    .filter((key) => !isDeepStrictEqual(before[key], after[key]))
    .map((key) => configPathOf(after[key] ?? before[key]) ?? `${section}.${key}`)
}

/** Server settings contain their path in the file. */
const configPathOf = (value: unknown): string | undefined =>
  isRecord(value) && typeof value['where'] === 'string' ? value['where'] : undefined

export interface WatchOptions {
  /** Milliseconds without events before the file is read (default 200). */
  readonly debounceMs?: number
  readonly clock?: Clock
  /** Logs once when the file is gone or cannot be watched, and when it is back. */
  readonly log?: Log | undefined
}

const RETRY_MS = 5_000

/**
 * Calls `onChange` when the text of `file` has changed. Watches the folder, because editors replace files and mounted
 * configurations are symlinks. Does not keep the process alive.
 * @returns stops watching
 */
export function watchConfig(file: string, onChange: () => void, options: WatchOptions = {}): () => void {
  const clock = options.clock ?? systemClock
  /** Not the text, because a lock file can be large. */
  let lastHash: string | undefined
  let cancel: (() => void) | undefined
  let watcher: FSWatcher | undefined
  let stopped = false
  let failing = false
  let isDeleted = false
  /** Retries when the system is out of resources, because no event tells when they are free. */
  const attempt = (action: () => void): void => {
    if (stopped) return
    try {
      action()
      if (failing) options.log?.info('watching the file again', { file })
      failing = false
    } catch (error) {
      retryLater(action, error)
    }
  }
  const retryLater = (action: () => void, error: unknown): void => {
    if (!failing) options.log?.warn('cannot watch a file for now', { file, error: messageOf(error) })
    failing = true
    cancel?.()
    cancel = clock.after(RETRY_MS, () => attempt(action))
  }
  const checkFile = (): void => {
    const currentHash = hashOf(file)
    if (currentHash === undefined) {
      reportDeletionLater()
      return
    }
    if (isDeleted) options.log?.info('a watched file exists again', { file })
    isDeleted = false
    if (currentHash === lastHash) return
    lastHash = currentHash
    onChange()
  }
  /** Editors remove a file for a moment when they replace it. */
  const reportDeletionLater = (): void => {
    if (lastHash === undefined || isDeleted) return
    cancel = clock.after(RETRY_MS, () =>
      attempt(() => {
        isDeleted = hashOf(file) === undefined
        if (isDeleted) options.log?.warn('a watched file was deleted; its last content stays in effect', { file })
        else checkFile()
      }),
    )
  }
  const startWatching = (): void => {
    const couldBeRead = lastHash !== undefined || !failing
    lastHash ??= hashOf(file)
    const folderWatcher = watch(dirname(file), { persistent: false }, (_event, name) => {
      // `..data` is the symlink that a mounted configuration replaces.
      if (name !== null && name !== basename(file) && !name.startsWith('..')) return
      cancel?.()
      cancel = clock.after(options.debounceMs ?? 200, () => attempt(checkFile))
    })
    // The folder may be removed; the last configuration stays.
    folderWatcher.on('error', (error) => {
      folderWatcher.close()
      retryLater(startWatching, error)
    })
    watcher = folderWatcher
    // The file may have changed before the folder was watched.
    if (!couldBeRead) onChange()
    else if (failing) checkFile()
  }
  attempt(startWatching)
  return () => {
    stopped = true
    cancel?.()
    watcher?.close()
  }
}

function hashOf(file: string): string | undefined {
  try {
    assertRegularFile(file)
    return hash('sha256', readFileSync(file))
  } catch (error) {
    if (['ENOENT', 'ENOTREG'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

function hasSameText(file: string, text: string | undefined): boolean {
  try {
    return text !== undefined && hashOf(file) === hash('sha256', text)
  } catch {
    return false
  }
}

export interface FollowOptions extends WatchOptions {
  readonly config: Config
  /** The text that `config` was read from (default: the file is read again). */
  readonly text?: string | undefined
  /** The file that changes when a secret does. Watched while the configuration names secrets. */
  readonly secrets?: string | undefined
  readonly machine: Machine
  readonly log: Log
  /** Adds options of the command line to the configuration. */
  refine?(config: Config): Config
  /** Applies a valid change. Not called if nothing relevant changed. If it throws, the error is logged. */
  onConfig(after: Config, plan: ReloadPlan): void | Promise<void>
}

/**
 * Watches the configuration file. Passes each valid change to `onConfig`, one after the other. Logs an invalid one and
 * keeps the last valid configuration.
 */
export function followConfig(options: FollowOptions) {
  const { machine, log } = options
  const { file } = options.config
  if (file === undefined) return { reload: () => undefined, stop: () => undefined }
  let current = options.config
  let stopped = false
  let wasInvalid = false
  let queue: Promise<void> = Promise.resolve()
  const clock = options.clock ?? systemClock
  let cancelRetry: (() => void) | undefined

  const apply = async (isRequested: boolean): Promise<void> => {
    if (stopped) return
    try {
      const { loadConfig } = await import('./load-config.ts')
      const { config: loaded, warnings, text } = await loadConfig(machine, file)
      followSecrets(text)
      const config = options.refine?.(loaded) ?? loaded
      const plan = planReload(current, config)
      if (plan.live.length + plan.restart.length === 0) {
        if (wasInvalid) log.info('the configuration is valid again and unchanged')
        else if (isRequested) log.info('SIGHUP: the configuration is unchanged')
        wasInvalid = false
        return
      }
      for (const warning of warnings) log.warn(warning)
      if (plan.restart.length > 0) log.warn('some configuration changes need a restart', { keys: plan.restart })
      await options.onConfig(config, plan)
      current = config
      wasInvalid = false
      log.info('configuration reloaded', { changed: plan.live })
    } catch (error) {
      wasInvalid = true
      if (isResourceExhausted(error)) cancelRetry = clock.after(RETRY_MS, enqueueReload)
      log.error('the edited configuration is invalid; the last valid one stays in effect', {
        ...(isPegboardError(error) ? { code: error.code } : {}),
        error: messageOf(error),
      })
    }
  }
  const enqueueReload = (isRequested = false): void => {
    cancelRetry?.()
    queue = queue.then(() => apply(isRequested))
  }
  let stopSecrets: (() => void) | undefined
  function followSecrets(text: string | undefined): void {
    if (stopped || stopSecrets || options.secrets === undefined || secretNames(text ?? '').length === 0) return
    mkdirSync(dirname(options.secrets), { recursive: true, mode: 0o700 })
    stopSecrets = watchConfig(options.secrets, enqueueReload, options)
  }
  const stop = watchConfig(file, enqueueReload, options)
  followSecrets(options.text)
  // A secret may have changed before the watch began.
  if (stopSecrets || !hasSameText(file, options.text)) enqueueReload()
  return {
    /** Reads the file now, as SIGHUP requests. Logs also that nothing changed. */
    reload: () => enqueueReload(true),
    stop() {
      stopped = true
      cancelRetry?.()
      stop()
      stopSecrets?.()
    },
  }
}
