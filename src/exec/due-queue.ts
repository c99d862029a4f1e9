import { hash } from 'node:crypto'
import { ticksOf } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { once } from '../core/once.ts'
import { createSemaphore } from '../core/semaphore.ts'
import type { StoredDocument, Table } from '../state/store.ts'
import type { TasksOptions } from './background-tasks.ts'
import { nextCheckAt } from './process-heartbeat.ts'
import { isStoredCaller } from './stored-caller.ts'

/** A stored entry that is run at a time, perhaps repeatedly. */
export interface DueEntry {
  /** Milliseconds since the epoch; `null` if no run is planned. */
  readonly nextAt: number | null
  readonly createdAt: number
  /** Id of the process that runs it now. */
  readonly by?: string
  /** Set if some of the processes cannot run it, because they lack its tool. */
  readonly missing?: MissingTool
}

export interface MissingTool {
  readonly since: number
  /** Ids of the processes that lack the tool. */
  readonly in: readonly string[]
}

export interface RunResult<T> {
  /** Returns the entry after the run; `undefined` deletes it. */
  change(value: T): T | undefined
  /** Notifies the owner. Not called if the entry was cancelled or another process took it over. Never rejects. */
  notify?(): void | Promise<void>
}

/** The run is left to another process, or to a later time. */
export const POSTPONED: unique symbol = Symbol('postponed')

export const isDueEntry = (value: unknown): value is Readonly<Record<string, unknown>> =>
  isRecord(value) &&
  (value['nextAt'] === null || Number.isFinite(value['nextAt'])) &&
  (value['by'] === undefined || typeof value['by'] === 'string') &&
  (value['missing'] === undefined || isMissingTool(value['missing'])) &&
  Number.isFinite(value['createdAt']) &&
  isStoredCaller(value['caller'])

const isMissingTool = (value: unknown): boolean =>
  isRecord(value) && Number.isFinite(value['since']) && Array.isArray(value['in'])

export interface DueQueueOptions<T extends DueEntry>
  extends Pick<TasksOptions, 'clock' | 'log' | 'instance' | 'alarms'> {
  readonly table: Table<T>
  /**
   * Returns the entry during its run, or `undefined` to drop it. It has the next time already, so that a crash does not
   * repeat the run. Other processes may claim it at the same time, so this must have no effects.
   */
  claim(value: T, now: number): T | undefined
  /** Called after a dropped entry was deleted, in the process that deleted it. */
  dropped?(value: T): void
  /** Returns the entry with a new time if the clock was set since it was planned. Called at each check. */
  replan(value: T, now: number): T | undefined
  /** Milliseconds to wait before a due entry is claimed (default 0). */
  claimDelayMs?(value: T, now: number): number
  /** True if this process lacks the tool, as far as it knows without asking servers. */
  lacksTool(value: T): boolean
  /**
   * Runs the entry. Never rejects.
   * @param mayPostpone false if its tool has been missing for so long that it must run
   */
  run(id: string, owner: string, claimed: T, mayPostpone: boolean): Promise<RunResult<T> | typeof POSTPONED>
  /** Returns the result of a run whose process died. The process that stores this result notifies the owner. */
  abandoned(id: string, owner: string, value: T): RunResult<T>
}

/** Maximum number of runs at once in this process; 32 for one owner. */
const MAX_AT_ONCE = 36
/** Further due entries start spread over this time, to spare the servers that they call. */
const SPREAD_MS = 1_000
/** An entry whose tool no process had for this long is run anyway, and fails. */
const MISSING_TOOL_MS = 60 * 60_000
/**
 * When to check an entry again whose tool this process lacks: after an eighth of the time since it was missed first, within
 * these limits.
 */
const RECHECK_MS = { least: 2_000, most: 30_000, share: 1 / 8 } as const
/** Maximum number of process ids in `missing`. Each restart of a process adds one. */
const MAX_MISSING = 50
/** Pause before a result is stored again. */
const RETRY_MS = 1_000
/** If this process was suspended for this long between claim and run, other processes may consider it dead. */
const MAX_SUSPENDED_MS = 5_000
const DROPPED = 'the result of this process is dropped'

/**
 * Runs each due entry once, however many processes share the table. A process claims an entry by writing it first; the
 * revision it wrote then prevents that any other process stores the result.
 */
export function createDueQueue<T extends DueEntry>(options: DueQueueOptions<T>) {
  const { table, alarms, clock, log, instance } = options
  const slots = createSemaphore({ maxConcurrent: MAX_AT_ONCE, maxQueued: Number.POSITIVE_INFINITY, setting: '' })
  const neverAborted = new AbortController().signal
  let stopped = false

  const setAlarm = async (id: string, { nextAt }: DueEntry): Promise<void> => {
    if (nextAt === null) alarms.clear(id)
    else await alarms.set(id, nextAt)
  }

  /** Does not throw: the check of all entries at start-up finds an entry without an alarm. */
  const trySetAlarm = (id: string, due: DueEntry): Promise<void> =>
    setAlarm(id, due).catch((error: unknown) =>
      log.warn('cannot set the alarm for a job or watcher', { id, error: messageOf(error) }),
    )

  const running = new Set<string>()
  const hasRunEnded = async (id: string, processId: string): Promise<boolean> =>
    processId === instance.id ? !running.has(id) : !(await instance.isAlive(processId))

  const waiting = new Set<() => void>()
  const waitForTurn = (id: string): Promise<void> =>
    new Promise((resolve) => {
      const cancel = clock.after(delayOf(id), done)
      waiting.add(done)
      function done(): void {
        cancel()
        waiting.delete(done)
        resolve()
      }
    })

  async function runWhenFree(id: string): Promise<void> {
    const owner = (await table.get(id))?.owner
    if (owner === undefined) return
    if (!slots.isFree(owner)) await waitForTurn(id)
    await slots.acquire(neverAborted, owner)
    try {
      await runIfDue(id)
    } finally {
      slots.release(owner)
    }
  }

  async function runIfDue(id: string): Promise<void> {
    const row = await findIdle(id)
    if (!row) return
    const now = clock.now()
    const { value } = row
    if (value.nextAt === null || value.nextAt > now) return setAlarm(id, value)
    const recheckAt = whenToRecheck(value, now)
    if (recheckAt !== undefined) return alarms.set(id, recheckAt)
    const next = options.claim(value, now)
    if (next) await claimAndRun(row, next, now)
    else if (await table.delete(id, row.revision)) options.dropped?.(value)
  }

  /** The entry with its current time, if this process may run it. If not, sets an alarm where that is needed. */
  async function findIdle(id: string): Promise<StoredDocument<T> | undefined> {
    const row = await table.get(id)
    if (!row) return undefined
    if (stopped) {
      // With several processes, another one then gets the alarm.
      await alarms.set(id, clock.now())
      return undefined
    }
    const { by } = row.value
    if (by === undefined) return await replan(row)
    if (!(await hasRunEnded(id, by))) {
      await alarms.set(id, nextCheckAt(clock.now()))
      return undefined
    }
    await finishAbandoned(id, row.owner, by)
    const unclaimed = await findUnclaimed(id)
    return unclaimed && (await replan(unclaimed))
  }

  /** Stores a new time if the clock was set since the entry was planned. Returns the current entry, if it does not run. */
  async function replan(row: StoredDocument<T>): Promise<StoredDocument<T> | undefined> {
    const { id, owner } = row
    if (!options.replan(row.value, clock.now())) return row
    await update(id, owner, (value) => (value.by === undefined ? (options.replan(value, clock.now()) ?? value) : value))
    return await findUnclaimed(id)
  }

  async function findUnclaimed(id: string): Promise<StoredDocument<T> | undefined> {
    const row = await table.get(id)
    return row?.value.by === undefined ? row : undefined
  }

  /** Stores the result of an entry whose process died while running it, and notifies the owner. */
  async function finishAbandoned(id: string, owner: string, by: string): Promise<void> {
    let result: RunResult<T> | undefined
    const updated = await update(id, owner, (current) => {
      result = current.by === by ? options.abandoned(id, owner, current) : undefined
      return result ? releaseClaim(result.change(current)) : current
    })
    if (updated) await result?.notify?.()
  }

  /** The time to check a due entry again that this process should not run yet; `undefined` if it should. */
  function whenToRecheck(value: T, now: number): number | undefined {
    const delayMs = options.claimDelayMs?.(value, now) ?? 0
    if (delayMs > 0) return now + delayMs
    const { missing } = value
    if (!missing?.in.includes(instance.id)) return undefined
    if (!mayPostpone(missing, now) || !options.lacksTool(value)) return undefined
    const ms = (now - missing.since) * RECHECK_MS.share
    return now + Math.min(RECHECK_MS.most, Math.max(RECHECK_MS.least, ms))
  }

  /** @param next the entry during its run */
  async function claimAndRun(row: StoredDocument<T>, next: T, now: number): Promise<void> {
    const { id, owner } = row
    // A second alarm must not end the first run.
    if (running.has(id)) return
    running.add(id)
    const startedAt = ticksOf(clock)
    try {
      // Before the claim: without a heartbeat, other processes would consider this process dead.
      await instance.begin()
      const { missing: _before, ...rest } = next
      const claimed = { ...rest, by: instance.id } as T
      const isFirst = (await table.put({ id, owner, value: claimed }, row.revision)) !== undefined
      if (!isFirst) return
      await trySetAlarm(id, claimed)
      const wasSuspended = ticksOf(clock) - startedAt >= MAX_SUSPENDED_MS
      if (wasSuspended && !(await isRunWanted(id, claimed))) return
      await run(row, claimed, now)
    } finally {
      running.delete(id)
      instance.end()
    }
  }

  async function run({ id, owner, value: before }: StoredDocument<T>, claimed: T, now: number): Promise<void> {
    const result = await options.run(id, owner, claimed, mayPostpone(before.missing, now))
    if (result === POSTPONED) return await storeResult(id, owner, undoClaim(before, claimed, now))
    // The notice comes first: if this process dies before it stores the result, the owner has it nevertheless.
    if (await isRunWanted(id, claimed)) await result.notify?.()
    await storeResult(id, owner, (value) => result.change(value))
  }

  /** The entry as if it had not been claimed, with changes that were made meanwhile. */
  const undoClaim =
    (before: T, claimed: T, now: number) =>
    (value: T): T => {
      const { since = now, in: others = [] } = before.missing ?? {}
      const processes = [...others.filter((one) => one !== instance.id), instance.id]
      const missing: MissingTool = { since, in: processes.slice(-MAX_MISSING) }
      return value.nextAt === claimed.nextAt ? { ...before, by: value.by, missing } : value
    }

  /** False if the entry was cancelled during its run, or another process has taken it over. */
  async function isRunWanted(id: string, claimed: T): Promise<boolean> {
    const row = await retryUntilReached(id, () => table.get(id))
    if (!row) {
      log.info(`a job or watcher was cancelled, or another process has taken it over; ${DROPPED}`, { id })
      return false
    }
    // A new entry under the same id, such as a job with the same label, does not cancel this run.
    const isReplaced = row.value.createdAt !== claimed.createdAt
    if (isReplaced || row.value.by === instance.id) return true
    log.warn(`another process has taken over a job or watcher of this process; ${DROPPED}`, { id })
    return false
  }

  /** Stores the result as soon as possible. */
  const storeResult = async (id: string, owner: string, change: (value: T) => T | undefined): Promise<void> => {
    await retryUntilReached(id, () =>
      update(id, owner, (value) => (value.by === instance.id ? releaseClaim(change(value)) : value)),
    )
  }

  /** Retries until the store answers; `undefined` if the queue was stopped. */
  async function retryUntilReached<R>(id: string, work: () => Promise<R>): Promise<R | undefined> {
    for (;;)
      try {
        return await work()
      } catch (error) {
        log.error('cannot read or store a job or watcher', { id, error: messageOf(error) })
        if (stopped) return undefined
        await new Promise<void>((resolve) => clock.after(RETRY_MS, resolve))
      }
  }

  async function update(id: string, owner: string, change: (value: T) => T | undefined): Promise<T | undefined> {
    for (;;) {
      const row: StoredDocument<T> | undefined = await table.get(id)
      if (row?.owner !== owner) return undefined
      const next = change(row.value)
      if (next === undefined) {
        if (!(await table.delete(id, row.revision))) continue
        alarms.clear(id)
        return row.value
      }
      if (next !== row.value && (await table.put({ id, owner, value: next }, row.revision)) === undefined) continue
      await trySetAlarm(id, next)
      return next
    }
  }

  return {
    start: (): Promise<void> =>
      alarms.start(runWhenFree, async () =>
        (await table.list()).flatMap(({ id, value }) => {
          const at = value.by !== undefined || options.replan(value, clock.now()) ? 0 : value.nextAt
          return at === null ? [] : [{ id, at }]
        }),
      ),
    /** Adds an entry. @returns false if the owner has `atMost` entries already */
    async add(id: string, owner: string, value: T, atMost: number): Promise<boolean> {
      if ((await table.put({ id, owner, value, atMost })) === undefined) return false
      // Stored first, because a process whose clock is ahead checks at once.
      await trySetAlarm(id, value)
      return true
    },
    async get(owner: string, id: string): Promise<T | undefined> {
      const row = await table.get(id)
      return row?.owner === owner ? row.value : undefined
    },
    list: (owner: string): Promise<readonly { readonly id: string; readonly value: T }[]> => table.list(owner),
    /** Changes an entry atomically across processes; `undefined` deletes it. Returns the changed entry, if any. */
    change: (owner: string, id: string, to: (value: T) => T | undefined): Promise<T | undefined> =>
      update(id, owner, to),
    /** Starts no more runs. Resolves when the running ones have ended. */
    stop: once(async () => {
      stopped = true
      for (const done of waiting) done()
      await alarms.stop()
    }),
  }
}

const mayPostpone = (missing: MissingTool | undefined, now: number): boolean =>
  now - (missing?.since ?? now) < MISSING_TOOL_MS

/** Delay of an entry. It depends only on the id, so it is the same in every process. */
const delayOf = (id: string): number => hash('sha256', id, 'buffer').readUInt16BE() % SPREAD_MS

function releaseClaim<T extends DueEntry>(value: T | undefined): T | undefined {
  if (value === undefined) return undefined
  const { by: _done, ...rest } = value
  return rest as T
}
