import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { keyOf } from '../state/document-store.ts'
import type { Table } from '../state/store.ts'

/** What tokens were spent on. */
export const KINDS = ['menu', 'search', 'schemas', 'results', 'retries'] as const
export type UsageKind = (typeof KINDS)[number]

/** Sums for one day, client and tool. */
export type Counts = { readonly [key in UsageKind | (typeof OTHERS)[number]]: number }

const OTHERS = ['sessions', 'calls', 'failures', 'direct', 'exact', 'estimate', 'estimated'] as const
const KEYS = [...KINDS, ...OTHERS]

/** A row as it is kept. It has no content: no arguments, results or queries. */
export interface DailyCounts extends Counts {
  /** UTC, such as `2026-11-28`. */
  readonly day: string
  readonly principal: string
  readonly client: string
  /** Id of the tool, or name of the meta-tool; empty for lists. */
  readonly tool: string
}

type RowKey = Pick<DailyCounts, 'day' | 'principal' | 'client' | 'tool'>
type Value = Omit<DailyCounts, 'principal'>

export const KEPT_DAYS = 90
const DAY_MS = 24 * 60 * 60_000
/** Rows are stored together, because no caller waits for them. */
const STORE_MS = 30_000
const TRIES = 10
/** Rows of a principal and day. Clients choose their names. */
const MAX_ROWS = 1_000
const REST = 'other'

export const zeroCounts = (): MutableCounts => Object.fromEntries(KEYS.map((key) => [key, 0])) as MutableCounts

type MutableCounts = { -readonly [key in keyof Counts]: number }

/** Adds to a sum in place, and returns it. */
export function addCounts<S extends MutableCounts>(sum: S, more: Partial<Counts>): S {
  for (const key of KEYS) (sum as MutableCounts)[key] += more[key] ?? 0
  return sum
}

export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

/** The first of so many days that end today. */
export const firstDay = (now: number, days: number): string => dayOf(now - (days - 1) * DAY_MS)

export const isDailyCounts = (value: unknown): boolean =>
  isRecord(value) &&
  ['day', 'client', 'tool'].every((key) => typeof value[key] === 'string') &&
  KEYS.every((key) => typeof value[key] === 'number')

export type CountsTable = Table<Value>

/** Rows of all processes that share the state, from the oldest day on. */
export async function readDailyCounts(table: CountsTable, principal?: string): Promise<readonly DailyCounts[]> {
  return (await table.list(principal)).map(({ owner, value }) => ({ ...value, principal: owner }))
}

/** The rows of this process, and of the others as far as they are stored. */
export function createDailyStore(clock: Clock, log: Log) {
  let unstored = new Map<string, RowKey & MutableCounts>()
  /** Names of rows by principal and day, to bound them. */
  const namesByDay = new Map<string, Set<string>>()
  let table: (() => CountsTable) | undefined
  let cancel: (() => void) | undefined
  let storing = Promise.resolve()

  /** A name beyond the limit is counted as `other`. */
  function bounded(key: RowKey): RowKey {
    const rows = `${key.principal}\n${key.day}`
    let names = namesByDay.get(rows)
    if (!names) {
      if (namesByDay.size >= MAX_ROWS) namesByDay.clear()
      names = new Set()
      namesByDay.set(rows, names)
    }
    const name = `${key.client}\n${key.tool}`
    if (names.has(name)) return key
    if (names.size >= MAX_ROWS) return { ...key, client: REST, tool: key.tool === '' ? '' : REST }
    names.add(name)
    return key
  }

  async function write(rows: CountsTable, { principal, ...more }: DailyCounts): Promise<void> {
    const id = keyOf(more.day, principal, more.client, more.tool)
    for (let left = TRIES; left > 0; left--) {
      const before = await rows.get(id)
      const value = before ? addCounts({ ...before.value }, more) : more
      const expiresAt = Date.parse(more.day) + KEPT_DAYS * DAY_MS
      if ((await rows.put({ id, owner: principal, value, expiresAt }, before?.revision ?? 0)) !== undefined) return
    }
  }

  async function store(): Promise<void> {
    if (!table) return
    const left = unstored
    unstored = new Map()
    try {
      const rows = table()
      for (const [id, row] of left) {
        await write(rows, row)
        left.delete(id)
      }
    } finally {
      for (const row of left.values()) add(row, row)
    }
  }

  function add(key: RowKey, more: Partial<Counts>): void {
    const { day, principal, client, tool } = key
    const id = JSON.stringify([day, principal, client, tool])
    const row = unstored.get(id) ?? { day, principal, client, tool, ...zeroCounts() }
    unstored.set(id, addCounts(row, more))
  }

  const storeNow = (): Promise<void> => {
    storing = storing
      .then(store)
      .catch((error: unknown) => log.warn('cannot store token counts', { error: messageOf(error) }))
    return storing
  }

  function storeSoon(): void {
    if (!table || cancel || unstored.size === 0) return
    cancel = clock.after(STORE_MS, () => {
      cancel = undefined
      void storeNow().then(storeSoon)
    })
  }

  return {
    add(key: RowKey, more: Partial<Counts>): void {
      add(bounded(key), more)
      storeSoon()
    },
    async list(principal?: string): Promise<readonly DailyCounts[]> {
      await storing
      let stored: readonly DailyCounts[] = []
      try {
        if (table) stored = await readDailyCounts(table(), principal)
      } catch (error) {
        log.warn('cannot read token counts', { error: messageOf(error) })
      }
      const own = [...unstored.values()].filter((row) => principal === undefined || row.principal === principal)
      return [...stored, ...own]
    },
    start(rows: () => CountsTable): void {
      table = rows
      storeSoon()
    },
    async stop(): Promise<void> {
      cancel?.()
      cancel = undefined
      await storing
      if (table && unstored.size > 0) await storeNow()
    },
  }
}
