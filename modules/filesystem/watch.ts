import { setTimeout as sleep } from 'node:timers/promises'
import { isPegboardError, type Paths, type ToolDef, ToolError, z } from 'pegboard'
import { lazySchema } from '../_lazy-schema.ts'
import { createBudget } from './budget.ts'
import { folder, type Settings, SKIPPED } from './config.ts'
import { pathsFor } from './places.ts'

/** More entries would be too many to poll. */
const MAX_ENTRIES = 5_000
const LOOK_MS = 250
/** Maximum share of time spent polling. */
const SHARE = 0.1
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
    const until = performance.now() + timeout * 1_000
    const budget = createBudget(caller, timeout * 1_000)
    await paths.stat(requestedPath)
    let before: State = new Map()
    let now: State = before
    let answer: object | undefined
    await budget.spend(async (signal) => {
      before = await stateOf(paths, requestedPath, signal)
      now = before
      answer = await nextChange(signal)
    })
    const changes = changesBetween(before, now)
    return answer ?? watchResult(requestedPath, changes, changes.length === 0)

    async function nextChange(signal: AbortSignal): Promise<object> {
      let changedAt: number | undefined
      for (;;) {
        const began = performance.now()
        const next = await stateOf(paths, requestedPath, signal)
        const tookMs = performance.now() - began
        if (!isSameState(next, now)) changedAt = performance.now()
        now = next
        const changes = changesBetween(before, now)
        const isQuiet = changedAt !== undefined && performance.now() - changedAt >= quiet_ms
        // A missing file may be about to be replaced, and an unchanged state is no event.
        if (isQuiet && changes.length > 0) return watchResult(requestedPath, changes, false)
        const leftMs = until - performance.now()
        if (leftMs <= 0) return watchResult(requestedPath, changes, changes.length === 0)
        const restMs = Math.max(Math.min(LOOK_MS, quiet_ms || LOOK_MS), tookMs / SHARE)
        await sleep(Math.min(restMs, leftMs), undefined, { signal })
      }
    }
  },
}

const watchResult = (
  path: string,
  changes: readonly { readonly path: string; readonly change: string }[],
  late: boolean,
) => ({
  path,
  changes: changes.slice(0, MAX_SHOWN),
  total: changes.length,
  timed_out: late,
})

async function stateOf(paths: Paths, requestedPath: string, signal: AbortSignal): Promise<State> {
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
  a.size === b.size && [...a].every(([path, is]) => b.get(path) === is)

function changesBetween(before: State, now: State): { path: string; change: 'created' | 'modified' | 'deleted' }[] {
  const created = [...now.keys()]
    .filter((path) => !before.has(path))
    .map((path) => ({ path, change: 'created' as const }))
  const rest = [...before].flatMap(([path, was]) => {
    const is = now.get(path)
    return is === was ? [] : [{ path, change: is === undefined ? ('deleted' as const) : ('modified' as const) }]
  })
  return [...created, ...rest]
}
