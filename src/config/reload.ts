import { type FSWatcher, readFileSync, watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type Clock, systemClock } from '../core/clock.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { isFull } from '../core/full.ts'
import type { Log } from '../core/log.ts'
import { isRecord } from '../core/record.ts'
import { mustEnd } from '../core/regular.ts'
import type { Config } from './load.ts'
import type { Machine } from './places.ts'

/** Changed keys, dotted: `modules.filesystem`, `mcpServers.github`, `exposure.share`, `server.http`. */
export interface ReloadPlan {
  /** Take effect without a restart; exposure for sessions that start afterwards. */
  readonly live: readonly string[]
  /** Keep their old value until the process starts again. */
  readonly restart: readonly string[]
}

const LIVE = ['modules', 'servers', 'openapi', 'policy', 'exposure', 'tools', 'profiles', 'clients'] as const
const RESTART = [
  'server',
  'modulesDir',
  'autoload',
  'search',
  'textTools',
  'execution',
  'audit',
  'log',
  'telemetry',
  'dirs',
  'loader',
  'state',
  'services',
] as const

/** What changed between two configurations and when each change takes effect. */
export function planReload(before: Config, after: Config): ReloadPlan {
  const changed = (sections: readonly (keyof Config)[]): string[] =>
    sections.flatMap((section) => differences(section, before[section], after[section]))
  return { live: changed(LIVE), restart: changed(RESTART) }
}

function differences(section: string, before: unknown, after: unknown): string[] {
  if (!isRecord(before) || !isRecord(after)) return isDeepStrictEqual(before, after) ? [] : [section]
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return keys
    .filter((key) => !isDeepStrictEqual(before[key], after[key]))
    .map((key) => placeOf(after[key] ?? before[key]) ?? `${section}.${key}`)
}

/** Servers know where they stand in the file. */
const placeOf = (value: unknown): string | undefined =>
  isRecord(value) && typeof value['where'] === 'string' ? value['where'] : undefined

export interface WatchOptions {
  /** Quiet time after the last event before the file is looked at; default 200. */
  readonly debounceMs?: number
  readonly clock?: Clock
  /** Told once when the file is gone or cannot be followed for now, and when it is back. */
  readonly log?: Log | undefined
}

const AGAIN_MS = 5_000

/**
 * Calls `onChange` when the text of `file` has changed. Watches the folder, because editors replace files and mounted
 * configurations are symlinks. Returns how to stop. Does not keep the process alive.
 */
export function watchConfig(file: string, onChange: () => void, options: WatchOptions = {}): () => void {
  const clock = options.clock ?? systemClock
  let text: string | undefined
  let cancel: (() => void) | undefined
  let watcher: FSWatcher | undefined
  let ended = false
  let trouble: string | undefined
  let gone = false
  /** What the system has no room for now is tried again: no event comes when it has. */
  const trying = (work: () => void): void => {
    if (ended) return
    try {
      work()
      if (trouble !== undefined) options.log?.info('the file is followed again', { file })
      trouble = undefined
    } catch (error) {
      again(work, error)
    }
  }
  const again = (work: () => void, error: unknown): void => {
    if (trouble === undefined) options.log?.warn('a file is not followed for now', { file, error: messageOf(error) })
    trouble ??= messageOf(error)
    cancel?.()
    cancel = clock.after(AGAIN_MS, () => trying(work))
  }
  const look = (): void => {
    const now = textOf(file)
    if (now === undefined) {
      missed()
      return
    }
    if (gone) options.log?.info('a followed file is back', { file })
    gone = false
    if (now === text) return
    text = now
    onChange()
  }
  /** An editor that replaces a file has it gone for a moment; one that stays away is told of, once. */
  const missed = (): void => {
    if (text === undefined || gone) return
    cancel = clock.after(AGAIN_MS, () =>
      trying(() => {
        gone = textOf(file) === undefined
        if (gone) options.log?.warn('a followed file is gone; what it said last stays', { file })
        else look()
      }),
    )
  }
  const begin = (): void => {
    // What changes before it is watched is noticed then; where it could not even be read, perhaps.
    const known = text !== undefined || trouble === undefined
    text ??= textOf(file)
    const stands = watch(dirname(file), { persistent: false }, (_event, name) => {
      // `..data` is what a mounted configuration swaps.
      if (name !== null && name !== basename(file) && !name.startsWith('..')) return
      cancel?.()
      cancel = clock.after(options.debounceMs ?? 200, () => trying(look))
    })
    // The folder itself may be removed; the last configuration then stays.
    stands.on('error', (error) => {
      stands.close()
      again(begin, error)
    })
    watcher = stands
    if (!known) onChange()
    else if (trouble !== undefined) look()
  }
  trying(begin)
  return () => {
    ended = true
    cancel?.()
    watcher?.close()
  }
}

function textOf(file: string): string | undefined {
  try {
    mustEnd(file)
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ENOTREG'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

/** Whether nobody has edited it since. */
function isAsRead(file: string, text: string | undefined): boolean {
  try {
    return text !== undefined && textOf(file) === text
  } catch {
    return false
  }
}

export interface Follow extends WatchOptions {
  readonly config: Config
  /** What the file held when it was read. Default: it is read again. */
  readonly text?: string | undefined
  readonly machine: Machine
  readonly log: Log
  /** Puts on top of the file what came from elsewhere, such as the command line. */
  refine?(config: Config): Config
  /** Applies a valid change. Not called when nothing that matters changed. A rejection is logged. */
  onConfig(after: Config, plan: ReloadPlan): void | Promise<void>
}

/**
 * Follows the file of a configuration: a valid edit is handed on with its plan, an invalid one is logged and the last
 * good configuration stays. Edits are handed on one after the other. Returns how to stop.
 */
export function followConfig(options: Follow): () => void {
  const { machine, log } = options
  const { file } = options.config
  if (file === undefined) return () => undefined
  let current = options.config
  let stopped = false
  /** The last edit was not used, and somebody was told. */
  let refused = false
  let queue: Promise<void> = Promise.resolve()
  const clock = options.clock ?? systemClock
  let cancelAgain: (() => void) | undefined

  const apply = async (): Promise<void> => {
    if (stopped) return
    try {
      const { loadConfig } = await import('./load.ts')
      const { config: read, warnings } = await loadConfig(machine, file)
      const config = options.refine?.(read) ?? read
      const plan = planReload(current, config)
      if (plan.live.length + plan.restart.length === 0) {
        if (refused) log.info('the configuration can be used again, and is what it was')
        refused = false
        return
      }
      for (const warning of warnings) log.warn(warning)
      if (plan.restart.length > 0)
        log.warn('some changes of the configuration wait for a restart', { keys: plan.restart })
      await options.onConfig(config, plan)
      current = config
      refused = false
      log.info('configuration reloaded', { changed: plan.live })
    } catch (error) {
      refused = true
      if (isFull(error)) cancelAgain = clock.after(AGAIN_MS, again)
      log.error('the edited configuration is not used; the last good one stays', {
        ...(isPegboardError(error) ? { code: error.code } : {}),
        error: messageOf(error),
      })
    }
  }
  const again = (): void => {
    cancelAgain?.()
    queue = queue.then(apply)
  }
  const stop = watchConfig(file, again, options)
  if (!isAsRead(file, options.text)) queue = apply()
  return () => {
    stopped = true
    cancelAgain?.()
    stop()
  }
}
