import type { Clock } from '../core/clock.ts'
import { groupBy } from '../core/group-by.ts'
import type { Json } from '../core/is-record.ts'
import { randomId } from '../core/random-id.ts'
import { keyOf as hashOf } from '../state/document-store.ts'
import type { Table } from '../state/store.ts'

export interface StartedTask {
  /** Its owner: a principal within a profile, as of `holderOf`. */
  readonly holder: string
  /** The session that started it, which gets its notifications. */
  readonly session: string | undefined
  readonly owner: string
  readonly id: string
  /** The name that the principal knows. */
  readonly name: string
}

/** Remembers started tasks, to list them and to find the owner of a notification. Requests by name do not need it. */
export type TaskBook = ReturnType<typeof createTaskBook>

/** The owner of results that are stored here. */
export const DONE = ''

const LISTED = 100
const MAX = { known: 2_000, kept: 64 } as const
const LIFE_MS = { usual: 60 * 60_000, longest: 24 * 60 * 60_000, kept: 5 * 60_000 } as const

/**
 * @param others names of tasks, shared between processes
 * @param onError called if a name could not be shared
 */
export function createTaskBook(
  clock: Clock,
  others?: () => Table<string>,
  onError: (error: unknown) => void = () => undefined,
) {
  const startedTasks = new Map<string, StartedTask & { readonly until: number }>()
  const done = new Map<
    string,
    { readonly holder: string; readonly task: Json; readonly result: Json; readonly until: number }
  >()
  const keyOf = ({ holder, owner, id }: StartedTask): string => JSON.stringify([holder, owner, id])

  function sweep(): void {
    const now = clock.now()
    for (const [key, { until }] of startedTasks) if (until <= now) startedTasks.delete(key)
    for (const [key, { until }] of done) if (until <= now) done.delete(key)
    makeRoom(startedTasks, MAX.known)
    makeRoom(done, MAX.kept)
  }

  /** The latest tasks of a holder that this process started, newest first. */
  function listOf(holder: string): readonly StartedTask[] {
    sweep()
    return [...startedTasks.values()]
      .filter((one) => one.holder === holder)
      .slice(-LISTED)
      .reverse()
  }

  return {
    add(task: StartedTask, ttlMs: unknown): void {
      const lifetimeMs = typeof ttlMs === 'number' ? Math.min(ttlMs, LIFE_MS.longest) : LIFE_MS.usual
      const until = clock.now() + lifetimeMs
      startedTasks.set(keyOf(task), { ...task, until })
      others?.()
        .put({ id: hashOf(task.name), owner: task.holder, value: task.name, expiresAt: until })
        .catch(onError)
      sweep()
    },
    listOf,
    /** The names of the latest tasks of a holder, of all processes, newest first. */
    async names(holder: string): Promise<readonly string[]> {
      const localNames = listOf(holder).map(({ name }) => name)
      if (!others) return localNames
      const sharedNames = (await others().list(holder)).map(({ value }) => value)
      return [...new Set([...sharedNames.slice(-LISTED).reverse(), ...localNames])].slice(0, LISTED)
    },
    /** Several if their server gave the same id more than once. */
    find: (owner: string, id: string): readonly StartedTask[] =>
      [...startedTasks.values()].filter((one) => one.id === id && one.owner === owner),
    /** Stores the result of a call that ended at once, and returns a task for it. Its owner is `DONE`. */
    keep(holder: string, result: Json, requestedTtlMs: unknown): Json {
      const ttlMs =
        typeof requestedTtlMs === 'number' && requestedTtlMs >= 0
          ? Math.min(requestedTtlMs, LIFE_MS.kept)
          : LIFE_MS.kept
      const at = new Date(clock.now()).toISOString()
      const taskId = randomId()
      const task = { taskId, status: 'completed', createdAt: at, lastUpdatedAt: at, ttlMs }
      done.set(taskId, { holder, task, result, until: clock.now() + ttlMs })
      sweep()
      return task
    },
    /** Undefined after its lifetime. */
    storedTask(id: string): { readonly task: Json; readonly result: Json } | undefined {
      sweep()
      return done.get(id)
    },
  }
}

/** Drops the oldest entry of the holder with most, so that a holder can only displace its own entries. */
function makeRoom(entries: Map<string, { readonly holder: string }>, max: number): void {
  while (entries.size > max) {
    const keysOf = groupBy(entries.keys(), (key) => entries.get(key)?.holder)
    const [oldest] = [...keysOf.values()].reduce((one, other) => (other.length > one.length ? other : one))
    entries.delete(oldest as string)
  }
}
