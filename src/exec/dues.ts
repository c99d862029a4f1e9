import { hash } from 'node:crypto'
import { type Clock, ticksOf } from '../core/clock.ts'
import { createEnding } from '../core/ending.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isRecord } from '../core/record.ts'
import { createSlots } from '../core/slots.ts'
import type { Alarms } from '../state/alarms.ts'
import type { Stored, Table } from '../state/store.ts'
import type { Instance } from './instance.ts'
import { isStoredCaller } from './stored-caller.ts'

/** Something that is to be done at a time, and perhaps again. */
export interface Due {
  /** Milliseconds since the epoch; `null` while nothing is planned. */
  readonly nextAt: number | null
  readonly createdAt: number
  /** The process that is doing it now. */
  readonly by?: string
  /** Some of those who share the store do not have what it needs. */
  readonly missing?: Missing
}

export interface Missing {
  readonly since: number
  /** The processes that found out. */
  readonly in: readonly string[]
}

/** What came of one that was done. */
export interface Done<T> {
  /** How it is changed by that; `undefined` deletes it. */
  change(value: T): T | undefined
  /** Tells its owner. Not called where another process has taken it over meanwhile, or it was cancelled. Never rejects. */
  tell?(): void | Promise<void>
}

/** It is not done here, and is for another process. */
export const LEFT: unique symbol = Symbol('left')

/** Whether something that was kept can fall due. */
export const isDue = (value: unknown): value is Readonly<Record<string, unknown>> =>
  isRecord(value) &&
  (value['nextAt'] === null || Number.isFinite(value['nextAt'])) &&
  (value['by'] === undefined || typeof value['by'] === 'string') &&
  (value['missing'] === undefined || isMissing(value['missing'])) &&
  Number.isFinite(value['createdAt']) &&
  isStoredCaller(value['caller'])

const isMissing = (value: unknown): boolean =>
  isRecord(value) && Number.isFinite(value['since']) && Array.isArray(value['in'])

export interface Dues<T extends Due> {
  /** From now on does what falls due. */
  start(): Promise<void>
  /** @param atMost false where the owner has so many already, and nothing is kept then */
  add(id: string, owner: string, value: T, atMost: number): Promise<boolean>
  get(owner: string, id: string): Promise<T | undefined>
  list(owner: string): Promise<readonly { readonly id: string; readonly value: T }[]>
  /** Changes one whole, whoever else does at the same time; `undefined` deletes it. Answers what it became, or nothing where there is none. */
  change(owner: string, id: string, to: (value: T) => T | undefined): Promise<T | undefined>
  stop(): Promise<void>
}

export interface DuesOptions<T extends Due> {
  readonly table: Table<T>
  readonly alarms: Alarms
  readonly clock: Clock
  readonly log: Log
  readonly instance: Instance
  /**
   * What it is while it is being done: the next time is planned before the first is begun, so that what dies in the middle is
   * not done twice. Answers `undefined` where it is not to be done after all.
   */
  claim(value: T, now: number): T | undefined
  /**
   * With another next time where the kept one was planned by a clock that has been set since; else `undefined`. Called each time
   * it is looked at.
   */
  replan(value: T, now: number): T | undefined
  /** How long to wait before one that is due is claimed; default not at all. */
  hold?(value: T, now: number): number
  /** What it needs is not in this process now, as far as can be seen without asking anybody. */
  lacks(value: T): boolean
  /**
   * Does it. Never rejects.
   * @param mayLeave whether there are others who may have what it needs: then `LEFT` may be the answer
   */
  run(id: string, owner: string, claimed: T, mayLeave: () => Promise<boolean>): Promise<Done<T> | typeof LEFT>
  /** The process that did it has died: how it goes on. `undefined` deletes it. */
  abandoned(id: string, owner: string, value: T): T | undefined
}

/** Done at once by this process: what falls due in the same second takes turns, and takes no place from those who wait. */
const MAX_AT_ONCE = 32
/** What is due beside those is spread over this long: the servers that are called are not ours. */
const SPREAD_MS = 1_000
/** One that another process does is looked at again after this long. */
const AGAIN_MS = 5_000
/** In steps of this: whoever else plans to look does it at the same moment, which is one alarm. */
const STEP_MS = 5_000
/** What nobody has for so long is gone. */
const GONE_MS = 60 * 60_000
/** One that was left is looked at again after so long, and the longer it lasts the more seldom. */
const LEFT_MS = { least: 2_000, most: 30_000, share: 1 / 8 } as const
/** Each restart is another. */
const MAX_MISSING = 50
/** What came of one is tried to be kept again after this long. */
const RETRY_MS = 1_000
/** A process that stood still for longer between its claim and its work may have been taken for dead. */
const STOOD_STILL_MS = 5_000

/**
 * Does what falls due, each once, whoever else reads the same table: to claim one is to write it before anybody else did, and the
 * revision that was written is the fence behind which nobody else writes what came of it.
 */
export function createDues<T extends Due>(options: DuesOptions<T>): Dues<T> {
  const { table, alarms, clock, log, instance } = options
  const slots = createSlots({ maxConcurrent: MAX_AT_ONCE, maxQueued: Number.POSITIVE_INFINITY, setting: '' })
  const ending = createEnding()
  let stopped = false

  const plan = async (id: string, { nextAt }: Due): Promise<void> => {
    if (nextAt === null) alarms.clear(id)
    else await alarms.set(id, nextAt)
  }

  /** What is kept and not planned is found when all that is kept is looked at. */
  const planOrNot = (id: string, due: Due): Promise<void> =>
    plan(id, due).catch((error: unknown) =>
      log.warn('what is due could not be planned for now', { id, error: messageOf(error) }),
    )

  const doing = new Set<string>()
  const isDone = async (id: string, by: string): Promise<boolean> =>
    by === instance.id ? !doing.has(id) : !(await instance.isAlive(by))

  const waiting = new Set<() => void>()
  const itsPlace = (id: string): Promise<void> =>
    new Promise((resolve) => {
      const cancel = clock.after(placeOf(id), done)
      waiting.add(done)
      function done(): void {
        cancel()
        waiting.delete(done)
        resolve()
      }
    })

  async function ring(id: string): Promise<void> {
    if (slots.running >= MAX_AT_ONCE) await itsPlace(id)
    await slots.take(ending)
    try {
      await look(id)
    } finally {
      slots.release()
    }
  }

  async function look(id: string): Promise<void> {
    let row = await table.get(id)
    if (!row || stopped) return
    const { by } = row.value
    if (by !== undefined) {
      if (!(await isDone(id, by))) return alarms.set(id, Math.ceil((clock.now() + AGAIN_MS) / STEP_MS) * STEP_MS)
      const { owner } = row
      await changed(id, owner, (now) => (now.by === by ? released(options.abandoned(id, owner, now)) : now))
      row = await table.get(id)
      if (!row || row.value.by !== undefined) return
    }
    const now = clock.now()
    if (options.replan(row.value, now)) {
      const { owner } = row
      await changed(id, owner, (value) => (value.by === undefined ? (options.replan(value, now) ?? value) : value))
      row = await table.get(id)
      if (!row || row.value.by !== undefined) return
    }
    if (row.value.nextAt === null || row.value.nextAt > now) return plan(id, row.value)
    const { value: before } = row
    const holdMs = options.hold?.(before, now) ?? 0
    if (holdMs > 0) return alarms.set(id, now + holdMs)
    const since = before.missing?.since ?? now
    if (now - since < GONE_MS && before.missing?.in.includes(instance.id) && options.lacks(before))
      return alarms.set(id, now + Math.min(LEFT_MS.most, Math.max(LEFT_MS.least, (now - since) * LEFT_MS.share)))
    const wanted = options.claim(before, now)
    if (wanted === undefined) return void (await table.delete(id, row.revision))
    // A second alarm for the same must not end what the first began.
    if (doing.has(id)) return
    doing.add(id)
    const began = ticksOf(clock)
    try {
      await instance.begin()
      const { missing: _before, ...rest } = wanted
      const claimed = { ...rest, by: instance.id } as T
      // Another was faster, and does it.
      if ((await table.put({ id, owner: row.owner, value: claimed }, row.revision)) === undefined) return
      await planOrNot(id, claimed)
      if (ticksOf(clock) - began >= STOOD_STILL_MS && !(await isOurs(id, claimed))) return
      const mayLeave = async (): Promise<boolean> => now - since < GONE_MS && !(await instance.alone())
      const done = await options.run(id, row.owner, claimed, mayLeave)
      if (done === LEFT) return await kept(id, row.owner, left(before, claimed, since))
      if (await isOurs(id, claimed)) await done.tell?.()
      await kept(id, row.owner, (value) => done.change(value))
    } finally {
      doing.delete(id)
      instance.end()
    }
  }

  /** As if it had not been begun, but for what was changed meanwhile. */
  const left =
    (before: T, claimed: T, since: number) =>
    (value: T): T => {
      const lacking = [...(before.missing?.in ?? []).filter((one) => one !== instance.id), instance.id]
      const missing: Missing = { since, in: lacking.slice(-MAX_MISSING) }
      return value.nextAt === claimed.nextAt ? { ...before, by: value.by, missing } : value
    }

  /** Whether what comes of it is still for us to tell. One that took its place under the same id takes nothing from it. */
  async function isOurs(id: string, claimed: T): Promise<boolean> {
    const row = await reachedAtLast(id, () => table.get(id))
    if (row && (row.value.by === instance.id || row.value.createdAt !== claimed.createdAt)) return true
    if (row) log.warn('another process has taken it over; what came of it here is dropped', { id })
    else log.info('it was cancelled, or another process has taken it over; what came of it here is dropped', { id })
    return false
  }

  /** Writes what came of it, as soon as that can be. */
  const kept = async (id: string, owner: string, change: (value: T) => T | undefined): Promise<void> => {
    await reachedAtLast(id, () =>
      changed(id, owner, (value) => (value.by === instance.id ? released(change(value)) : value)),
    )
  }

  /** Tries until the store can be reached; `undefined` where that is not to be waited for any more. */
  async function reachedAtLast<R>(id: string, work: () => Promise<R>): Promise<R | undefined> {
    for (;;)
      try {
        return await work()
      } catch (error) {
        log.error('what came of it could not be kept', { id, error: messageOf(error) })
        if (stopped) return undefined
        await new Promise<void>((resolve) => clock.after(RETRY_MS, resolve))
      }
  }

  async function changed(id: string, owner: string, to: (value: T) => T | undefined): Promise<T | undefined> {
    for (;;) {
      const row: Stored<T> | undefined = await table.get(id)
      if (row?.owner !== owner) return undefined
      const next = to(row.value)
      if (next === undefined) {
        if (!(await table.delete(id, row.revision))) continue
        alarms.clear(id)
        return row.value
      }
      if (next !== row.value && (await table.put({ id, owner, value: next }, row.revision)) === undefined) continue
      await planOrNot(id, next)
      return next
    }
  }

  return {
    start: () =>
      alarms.start(ring, async () =>
        (await table.list()).flatMap(({ id, value }) =>
          value.by !== undefined || options.replan(value, clock.now())
            ? [{ id, at: 0 }]
            : value.nextAt === null
              ? []
              : [{ id, at: value.nextAt }],
        ),
      ),
    async add(id, owner, value, atMost) {
      if ((await table.put({ id, owner, value, atMost })) === undefined) return false
      // Only now: a process whose clock is ahead looks at once, and must find it.
      await planOrNot(id, value)
      return true
    },
    async get(owner, id) {
      const row = await table.get(id)
      return row?.owner === owner ? row.value : undefined
    },
    list: (owner) => table.list(owner),
    change: (owner, id, to) => changed(id, owner, to),
    async stop() {
      stopped = true
      for (const done of waiting) done()
      await alarms.stop()
    },
  }
}

/** The same each time, and for whichever process does it. */
const placeOf = (id: string): number => hash('sha256', id, 'buffer').readUInt16BE() % SPREAD_MS

function released<T extends Due>(value: T | undefined): T | undefined {
  if (value === undefined) return undefined
  const { by: _done, ...rest } = value
  return rest as T
}
