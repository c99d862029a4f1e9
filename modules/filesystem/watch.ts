import { setTimeout as sleep } from 'node:timers/promises'
import { isPegboardError, type Paths, type ToolDef, ToolError, z } from 'pegboard'
import { lazySchema } from '../_lazy-schema.ts'
import { createBudget } from './budget.ts'
import { folder, type Settings, SKIPPED } from './config.ts'
import { pathsFor } from './paths.ts'

/** More entries would be too many to poll. */
const MAX_ENTRIES = 5_000
const POLL_MS = 250
/** Maximum share of time spent polling. */
const MAX_POLL_SHARE = 0.1
const MAX_SHOWN = 200

const Watch = lazySchema(() =>
  z.object({
    path: folder.describe('Path of a file, or of a folder to watch with everything in it.'),
    timeout: z
      .int()
      .min(1)
      .max(600)
      .default(30)
      .describe('Maximum seconds to wait; execution.timeoutMs limits it too.'),
    quiet_ms: z
      .int()
      .min(0)
      .max(60_000)
      .default(300)
      .describe('Report after this many milliseconds without further changes.'),
  }),
)

/** Entries by path; kind, size, time and inode identify a state. */
type State = ReadonlyMap<string, string>

export const watch: ToolDef<Settings, typeof Watch> = {
  title: 'Wait for a change of files',
  description:
    'Wait until a file, or anything in a folder, is created, modified or deleted on disk, and report that change once. To wait longer run it with background_run. Earlier changes are not reported.',
  aliases: ['wait for file change', 'file watcher', 'inotify', 'surveiller un dossier', 'attendre un changement'],
  tags: ['files', 'folders'],
  input: Watch,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { path: 'build.log' } }, { input: { path: 'src', timeout: 45 } }],
  async run({ path: requestedPath, timeout, quiet_ms }, { config, signal: caller }) {
    const paths = pathsFor(config)
    const deadline = performance.now() + timeout * 1_000
    const budget = createBudget(caller, timeout * 1_000)
    await paths.stat(requestedPath)
    let before: State = new Map()
    let current: State = before
    let answer: object | undefined
    await budget.spend(async (signal) => {
      before = await readState(paths, requestedPath, signal)
      current = before
      answer = await waitForChange(signal)
    })
    const changes = changesBetween(before, current)
    return answer ?? createWatchResult(requestedPath, changes, changes.length === 0)

    async function waitForChange(signal: AbortSignal): Promise<object> {
      let changedAt: number | undefined
      for (;;) {
        const startedAt = performance.now()
        const nextState = await readState(paths, requestedPath, signal)
        const tookMs = performance.now() - startedAt
        if (!isSameState(nextState, current)) changedAt = performance.now()
        current = nextState
        const changes = changesBetween(before, current)
        const isQuiet = changedAt !== undefined && performance.now() - changedAt >= quiet_ms
        // A missing file may be about to be replaced, and an unchanged state is no event.
        if (isQuiet && changes.length > 0) return createWatchResult(requestedPath, changes, false)
        const leftMs = deadline - performance.now()
        if (leftMs <= 0) return createWatchResult(requestedPath, changes, changes.length === 0)
        const restMs = Math.max(Math.min(POLL_MS, quiet_ms || POLL_MS), tookMs / MAX_POLL_SHARE)
        await sleep(Math.min(restMs, leftMs), undefined, { signal })
      }
    }
  },
}

const createWatchResult = (
  path: string,
  changes: readonly { readonly path: string; readonly change: string }[],
  timedOut: boolean,
) => ({
  path,
  changes: changes.slice(0, MAX_SHOWN),
  total: changes.length,
  timed_out: timedOut,
})

async function readState(paths: Paths, requestedPath: string, signal: AbortSignal): Promise<State> {
  const state = new Map<string, string>()
  const add = async (path: string): Promise<string | undefined> => {
    try {
      const { path: shown, kind, size, mtime } = await paths.stat(path)
      if (kind !== 'dir' || path !== requestedPath)
        state.set(shown, kind === 'dir' ? kind : `${kind} ${size} ${mtime.getTime()}`)
      return kind
    } catch (error) {
      // Removed between two polls, or a broken link.
      if (isPegboardError(error) && ['E_NOT_FOUND', 'E_PATH_OUTSIDE_ROOT', 'E_PATH_DENIED'].includes(error.code))
        return undefined
      throw error
    }
  }
  if ((await add(requestedPath)) !== 'dir') return state
  for await (const { path } of paths.walk(requestedPath, { signal, skip: ({ name }) => SKIPPED.has(name) })) {
    signal.throwIfAborted()
    if (state.size >= MAX_ENTRIES)
      throw new ToolError(`There are more than ${MAX_ENTRIES} files and folders in "${requestedPath}".`, {
        code: 'E_WATCH_LIMIT',
        hint: 'Watch a subfolder, or one file.',
      })
    await add(path)
  }
  return state
}

const isSameState = (a: State, b: State): boolean =>
  a.size === b.size && [...a].every(([path, value]) => b.get(path) === value)

function changesBetween(before: State, after: State): { path: string; change: 'created' | 'modified' | 'deleted' }[] {
  const created = [...after.keys()]
    .filter((path) => !before.has(path))
    .map((path) => ({ path, change: 'created' as const }))
  const changedOrDeleted = [...before].flatMap(([path, oldValue]) => {
    const newValue = after.get(path)
    return newValue === oldValue
      ? []
      : [{ path, change: newValue === undefined ? ('deleted' as const) : ('modified' as const) }]
  })
  return [...created, ...changedOrDeleted]
}
