import type { Clock } from '../core/clock.ts'
import { newHandle } from '../core/handle.ts'
import { keyOf as hashOf } from '../state/documents.ts'
import type { Table } from '../state/store.ts'

type Json = Readonly<Record<string, unknown>>

/** A task that was begun through us. */
export interface Known {
  /** Whose it is: a principal within a profile. */
  readonly holder: string
  /** The connection it was begun on, which hears of it. */
  readonly session: string | undefined
  readonly owner: string
  readonly id: string
  /** What the principal knows it by. */
  readonly name: string
}

/**
 * Remembers which tasks were begun, to list them and to say whose a notification is. Asking for one by its name needs nothing of
 * it.
 */
export interface TaskBook {
  began(known: Known, ttlMs: unknown): void
  /** The latest of a holder that this process began, newest first. */
  of(holder: string): readonly Known[]
  /** What the latest of a holder are called, whichever process began them, newest first. */
  names(holder: string): Promise<readonly string[]>
  find(owner: string, id: string): Known | undefined
  /** Keeps the result of a call that was done at once, and gives the task it is of. Its owner is `DONE`. */
  keep(holder: string, result: Json, ttlMs: unknown): Json
  /** `undefined` for one that is no longer kept. */
  kept(id: string): { readonly task: Json; readonly result: Json } | undefined
}

/** The owner of results that are kept here. */
export const DONE = ''

const LISTED = 100
const MAX = { known: 2_000, kept: 64 } as const
const LIFE_MS = { usual: 60 * 60_000, longest: 24 * 60 * 60_000, kept: 5 * 60_000 } as const

/**
 * @param others what several processes have in common: the names of tasks
 * @param onError told of what the others could not be told
 */
export function createTaskBook(
  clock: Clock,
  others?: () => Table<string>,
  onError: (error: unknown) => void = () => undefined,
): TaskBook {
  const known = new Map<string, Known & { readonly until: number }>()
  const done = new Map<
    string,
    { readonly holder: string; readonly task: Json; readonly result: Json; readonly until: number }
  >()
  const keyOf = (owner: string, id: string): string => `${owner}:${id}`

  function sweep(): void {
    const now = clock.now()
    for (const [key, { until }] of known) if (until <= now) known.delete(key)
    for (const [key, { until }] of done) if (until <= now) done.delete(key)
    makeRoom(known, MAX.known)
    makeRoom(done, MAX.kept)
  }

  function of(holder: string): readonly Known[] {
    sweep()
    return [...known.values()]
      .filter((one) => one.holder === holder)
      .slice(-LISTED)
      .reverse()
  }

  return {
    began(one, ttlMs) {
      const lives = typeof ttlMs === 'number' ? Math.min(ttlMs, LIFE_MS.longest) : LIFE_MS.usual
      const until = clock.now() + lives
      known.set(keyOf(one.owner, one.id), { ...one, until })
      others?.()
        .put({ id: hashOf(one.name), owner: one.holder, value: one.name, expiresAt: until })
        .catch(onError)
      sweep()
    },
    of,
    async names(holder) {
      const own = of(holder).map(({ name }) => name)
      if (!others) return own
      const theirs = (await others().list(holder)).map(({ value }) => value)
      return [...new Set([...theirs.slice(-LISTED).reverse(), ...own])].slice(0, LISTED)
    },
    find: (owner, id) => known.get(keyOf(owner, id)),
    keep(holder, result, wanted) {
      const ttlMs = typeof wanted === 'number' && wanted >= 0 ? Math.min(wanted, LIFE_MS.kept) : LIFE_MS.kept
      const at = new Date(clock.now()).toISOString()
      const taskId = newHandle()
      const task = { taskId, status: 'completed', createdAt: at, lastUpdatedAt: at, ttlMs }
      done.set(taskId, { holder, task, result, until: clock.now() + ttlMs })
      sweep()
      return task
    },
    kept(id) {
      sweep()
      return done.get(id)
    },
  }
}

/** Who has most of them gives up its oldest: nobody can push out what others have. */
function makeRoom(all: Map<string, { readonly holder: string }>, max: number): void {
  while (all.size > max) {
    const counts = new Map<string, number>()
    for (const { holder } of all.values()) counts.set(holder, (counts.get(holder) ?? 0) + 1)
    const most = Math.max(...counts.values())
    for (const [key, { holder }] of all)
      if (counts.get(holder) === most) {
        all.delete(key)
        break
      }
  }
}
