import { existsSync, type FSWatcher, promises as fs, watch } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isCode, isMissing } from './discover-modules.ts'

/** State of every code file below a folder, by absolute path. Comparing two states finds the changes. */
export type Fingerprint = ReadonlyMap<string, string>

export async function readFingerprint(dir: string): Promise<Fingerprint> {
  const files = new Map<string, string>()
  if (existsSync(dir)) await walk(dir, undefined, files)
  return files
}

/** Paths that are new, removed or changed. */
export function changedPaths(before: Fingerprint, now: Fingerprint): Set<string> {
  const changed = new Set<string>()
  for (const [path, mark] of now) if (before.get(path) !== mark) changed.add(path)
  for (const path of before.keys()) if (!now.has(path)) changed.add(path)
  return changed
}

/** Changes within this time are reported together. */
const DEBOUNCE_MS = 100
/** Delay before a failed watch is tried again. */
const RETRY_MS = 5_000

/**
 * Calls `onEvent` once for several changes below a folder, after a delay, and again if it rejects. The folder may
 * appear later. Does not keep the process alive. Returns how to stop.
 */
export function watchFolder(
  dir: string,
  onEvent: () => Promise<void>,
  options: { readonly clock: Clock; readonly log: Log },
): () => void {
  const { clock, log } = options
  const watchers = new Map<string, FSWatcher>()
  let cancel: (() => void) | undefined
  let ended = false

  const scheduleCheck = (): void => {
    cancel?.()
    cancel = clock.after(DEBOUNCE_MS, () => void check())
  }
  async function check(): Promise<void> {
    const isWatching = await updateWatchers()
    const isHandled = await onEvent().then(
      () => true,
      () => false,
    )
    // No event reports when resources are available again.
    if (ended || (isWatching && isHandled)) return
    cancel?.()
    cancel = clock.after(RETRY_MS, () => void check())
  }
  let lastProblem = ''
  /** True if all folders are watched. */
  async function updateWatchers(): Promise<boolean> {
    let problem = ''
    const reportFailure = (message: string, folder: string, error: unknown): void => {
      problem = `${message} ${messageOf(error)}`
      if (problem !== lastProblem) log.warn(message, { folder, error: messageOf(error) })
    }
    await syncWatchers(reportFailure).catch((error: unknown) =>
      reportFailure('cannot list the folders to watch', dir, error),
    )
    lastProblem = problem
    return problem === ''
  }
  const closeWatcher = (path: string): void => {
    watchers.get(path)?.close()
    watchers.delete(path)
  }
  // One watcher per folder: recursive watching differs between platforms, and misses new folders on some.
  async function syncWatchers(reportFailure: (message: string, folder: string, error: unknown) => void): Promise<void> {
    const folders = await foldersToWatch(dir)
    if (ended) return
    for (const path of [...watchers.keys()]) if (!folders.has(path)) closeWatcher(path)
    for (const path of folders) {
      if (watchers.has(path)) continue
      try {
        const watcher = watch(path, { persistent: false }, scheduleCheck)
        watcher.on('error', () => {
          closeWatcher(path)
          scheduleCheck()
        })
        watchers.set(path, watcher)
      } catch (error) {
        reportFailure('cannot watch a folder', path, error)
      }
    }
  }
  // Changes before the watchers existed are found by this first event.
  void updateWatchers().then(scheduleCheck)
  return () => {
    ended = true
    cancel?.()
    for (const path of [...watchers.keys()]) closeWatcher(path)
  }
}

/** The folder and its subfolders; while it does not exist, the nearest folder above it. */
async function foldersToWatch(dir: string): Promise<Set<string>> {
  const folders = new Set<string>()
  await walk(dir, folders, undefined)
  for (let ancestor = dirname(dir); folders.size === 0; ancestor = dirname(ancestor)) {
    if (existsSync(ancestor)) folders.add(ancestor)
    else if (ancestor === dirname(ancestor)) break
  }
  return folders
}

async function walk(
  dir: string,
  folders: Set<string> | undefined,
  files: Map<string, string> | undefined,
): Promise<void> {
  let children: Awaited<ReturnType<typeof listFolder>>
  try {
    children = await listFolder(dir)
  } catch (error) {
    if (isMissing(error)) return
    throw error
  }
  folders?.add(dir)
  for (const child of children) {
    if (child.name.startsWith('.') || child.name === 'node_modules') continue
    const path = join(dir, child.name)
    if (child.isDirectory()) await walk(path, folders, files)
    else if (files && isCode(child.name)) {
      const mark = await markOf(path)
      if (mark) files.set(path, mark)
    }
  }
}

const listFolder = (dir: string) => fs.readdir(dir, { withFileTypes: true })

async function markOf(path: string): Promise<string | undefined> {
  try {
    const stat = await fs.stat(path, { bigint: true })
    return `${stat.mtimeNs} ${stat.size} ${stat.ino}`
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}
