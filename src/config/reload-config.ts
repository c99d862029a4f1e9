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
  /** Applied without a restart. Exposure applies to new sessions. */
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
    .map((key) => placeOf(after[key] ?? before[key]) ?? `${section}.${key}`)
}

/** Server settings contain their path in the file. */
const placeOf = (value: unknown): string | undefined =>
  isRecord(value) && typeof value['where'] === 'string' ? value['where'] : undefined

export interface WatchOptions {
  /** Milliseconds without events before the file is read (default 200). */
  readonly debounceMs?: number
  readonly clock?: Clock
  /** Logs once when the file is gone or cannot be watched, and when it is back. */
  readonly log?: Log | undefined
}

const AGAIN_MS = 5_000

/**
 * Calls `onChange` when the text of `file` has changed. Watches the folder, because editors replace files and mounted
 * configurations are symlinks. Does not keep the process alive.
 * @returns stops watching
 */
export function watchConfig(file: string, onChange: () => void, options: WatchOptions = {}): () => void {
  const clock = options.clock ?? systemClock
  /** Not the text, because a lock file can be large. */
  let last: string | undefined
  let cancel: (() => void) | undefined
  let watcher: FSWatcher | undefined
  let ended = false
  let trouble: string | undefined
  let gone = false
  /** Retries when the system is out of resources, because no event tells when they are free. */
  const trying = (work: () => void): void => {
    if (ended) return
    try {
      work()
      if (trouble !== undefined) options.log?.info('watching the file again', { file })
      trouble = undefined
    } catch (error) {
      again(work, error)
    }
  }
  const again = (work: () => void, error: unknown): void => {
    if (trouble === undefined) options.log?.warn('cannot watch a file for now', { file, error: messageOf(error) })
    trouble ??= messageOf(error)
    cancel?.()
    cancel = clock.after(AGAIN_MS, () => trying(work))
  }
  const look = (): void => {
    const now = hashOf(file)
    if (now === undefined) {
      missed()
      return
    }
    if (gone) options.log?.info('a watched file exists again', { file })
    gone = false
    if (now === last) return
    last = now
    onChange()
  }
  /** Editors remove a file for a moment when they replace it. Logs once if it stays away. */
  const missed = (): void => {
    if (last === undefined || gone) return
    cancel = clock.after(AGAIN_MS, () =>
      trying(() => {
        gone = hashOf(file) === undefined
        if (gone) options.log?.warn('a watched file was deleted; its last content stays in effect', { file })
        else look()
      }),
    )
  }
  const begin = (): void => {
    // A change before the watch began is noticed now. If the file could not be read, it may have changed.
    const wasReadable = last !== undefined || trouble === undefined
    last ??= hashOf(file)
    const stands = watch(dirname(file), { persistent: false }, (_event, name) => {
      // `..data` is the symlink that a mounted configuration replaces.
      if (name !== null && name !== basename(file) && !name.startsWith('..')) return
      cancel?.()
      cancel = clock.after(options.debounceMs ?? 200, () => trying(look))
    })
    // The folder may be removed; the last configuration stays.
    stands.on('error', (error) => {
      stands.close()
      again(begin, error)
    })
    watcher = stands
    if (!wasReadable) onChange()
    else if (trouble !== undefined) look()
  }
  trying(begin)
  return () => {
    ended = true
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

/** True if the file is unchanged. */
function isAsRead(file: string, text: string | undefined): boolean {
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
 * @returns stops watching
 */
export function followConfig(options: FollowOptions): () => void {
  const { machine, log } = options
  const { file } = options.config
  if (file === undefined) return () => undefined
  let current = options.config
  let stopped = false
  let refused = false
  let queue: Promise<void> = Promise.resolve()
  const clock = options.clock ?? systemClock
  let cancelAgain: (() => void) | undefined

  const apply = async (): Promise<void> => {
    if (stopped) return
    try {
      const { loadConfig } = await import('./load-config.ts')
      const { config: read, warnings, text } = await loadConfig(machine, file)
      followSecrets(text)
      const config = options.refine?.(read) ?? read
      const plan = planReload(current, config)
      if (plan.live.length + plan.restart.length === 0) {
        if (refused) log.info('the configuration is valid again and unchanged')
        refused = false
        return
      }
      for (const warning of warnings) log.warn(warning)
      if (plan.restart.length > 0) log.warn('some configuration changes need a restart', { keys: plan.restart })
      await options.onConfig(config, plan)
      current = config
      refused = false
      log.info('configuration reloaded', { changed: plan.live })
    } catch (error) {
      refused = true
      if (isResourceExhausted(error)) cancelAgain = clock.after(AGAIN_MS, again)
      log.error('the edited configuration is invalid; the last valid one stays in effect', {
        ...(isPegboardError(error) ? { code: error.code } : {}),
        error: messageOf(error),
      })
    }
  }
  const again = (): void => {
    cancelAgain?.()
    queue = queue.then(apply)
  }
  let stopSecrets: (() => void) | undefined
  function followSecrets(text: string | undefined): void {
    if (stopped || stopSecrets || options.secrets === undefined || secretNames(text ?? '').length === 0) return
    mkdirSync(dirname(options.secrets), { recursive: true, mode: 0o700 })
    stopSecrets = watchConfig(options.secrets, again, options)
  }
  const stop = watchConfig(file, again, options)
  followSecrets(options.text)
  // A secret may have changed before the watch began.
  if (stopSecrets || !isAsRead(file, options.text)) queue = apply()
  return () => {
    stopped = true
    cancelAgain?.()
    stop()
    stopSecrets?.()
  }
}
