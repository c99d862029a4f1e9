import type { Clock } from '../core/clock.ts'
import { dropOldest } from '../core/drop-oldest.ts'
import { messageOf } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Log } from '../core/log.ts'
import { keyOf } from '../state/document-store.ts'
import type { Table } from '../state/store.ts'

export interface ToolCount {
  readonly tool: string
  readonly calls: number
  readonly failures: number
  /** Average duration of successful calls, in milliseconds. */
  readonly ms: number
}

/** How often each tool ran, by principal. */
export interface Usage {
  /** @param code error code of a failed call */
  add(tool: string, principal: string, ms: number, code: string | undefined): void
  /**
   * Number of successful runs of each tool for one principal. Search ranks by it; other principals have no influence.
   */
  of(principal: string): (tool: string) => number
  counts(principal: string): readonly ToolCount[]
  /** Loads stored counts and starts to store new ones. */
  start(store: UsageStore): Promise<void>
  /** Stores the counts that are not stored yet. */
  stop(): Promise<void>
}

export interface UsageStore {
  /** True if an earlier process stored counts. */
  readonly hasStored: boolean
  readonly table: () => Table<StoredCount>
  readonly clock: Clock
  readonly log: Log
}

interface Counter {
  ok: number
  failed: number
  ms: number
}

export type StoredCount = Readonly<Counter> & { readonly tool: string }

const MAX_PRINCIPALS = 1_000
/** Counts are stored together, because no caller waits for them. */
const SAVE_DELAY_MS = 30_000
/** Counts older than this are dropped. */
const COUNT_TTL_MS = 90 * 24 * 60 * 60_000
const MAX_ATTEMPTS = 10

export function createUsage(): Usage {
  const principals = new Map<string, Map<string, Counter>>()
  let unsaved = new Map<string, Map<string, Counter>>()
  let usageStore: UsageStore | undefined
  let cancel: (() => void) | undefined
  let saving = Promise.resolve()

  function countersOf(all: Map<string, Map<string, Counter>>, principal: string): Map<string, Counter> {
    const counters = getOrInsert(all, principal, () => new Map())
    dropOldest(all, MAX_PRINCIPALS)
    return counters
  }

  async function write({ table, clock }: UsageStore, principal: string, tool: string, added: Counter): Promise<void> {
    const id = keyOf(principal, tool)
    for (let left = MAX_ATTEMPTS; left > 0; left--) {
      const row = await table().get(id)
      const { ok = 0, failed = 0, ms = 0 } = row?.value ?? {}
      const value = { tool, ok: ok + added.ok, failed: failed + added.failed, ms: ms + added.ms }
      const expiresAt = clock.now() + COUNT_TTL_MS
      if ((await table().put({ id, owner: principal, value, expiresAt }, row?.revision ?? 0)) !== undefined) return
    }
  }

  async function saveAll(store: UsageStore): Promise<void> {
    const saved = unsaved
    unsaved = new Map()
    try {
      await Promise.all(
        [...saved].flatMap(([principal, tools]) =>
          [...tools].map(([tool, counter]) => write(store, principal, tool, counter)),
        ),
      )
    } catch (error) {
      store.log.warn('cannot store usage counts of tools', { error: messageOf(error) })
    }
  }

  function scheduleSave(): void {
    const store = usageStore
    if (!store || cancel || unsaved.size === 0) return
    cancel = store.clock.after(SAVE_DELAY_MS, () => {
      cancel = undefined
      saving = saving.then(() => saveAll(store)).then(scheduleSave)
    })
  }

  return {
    add(tool, principal, ms, code) {
      count(countersOf(principals, principal), tool, ms, code)
      if (!usageStore) return
      count(countersOf(unsaved, principal), tool, ms, code)
      if (!cancel) scheduleSave()
    },
    of(principal) {
      const counters = principals.get(principal)
      return (tool) => counters?.get(tool)?.ok ?? 0
    },
    counts: (principal) =>
      [...(principals.get(principal) ?? [])].map(([tool, { ok, failed, ms }]) => ({
        tool,
        calls: ok + failed,
        failures: failed,
        ms: ok === 0 ? 0 : Math.round(ms / ok),
      })),
    async start(store) {
      if (usageStore) return
      for (const { owner, value } of store.hasStored ? await store.table().list() : []) {
        const counters = countersOf(principals, owner)
        const { ok, failed, ms } = counters.get(value.tool) ?? { ok: 0, failed: 0, ms: 0 }
        counters.set(value.tool, { ok: ok + value.ok, failed: failed + value.failed, ms: ms + value.ms })
      }
      usageStore = store
    },
    async stop() {
      cancel?.()
      cancel = undefined
      await saving
      if (usageStore && unsaved.size > 0) await saveAll(usageStore)
    },
  }
}

function count(counters: Map<string, Counter>, tool: string, ms: number, code: string | undefined): void {
  const counter = getOrInsert(counters, tool, () => ({ ok: 0, failed: 0, ms: 0 }))
  if (code !== undefined) counter.failed++
  else {
    counter.ok++
    counter.ms += ms
  }
}
