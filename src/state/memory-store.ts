import type { Clock } from '../core/clock.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { DocumentWrite, Store, StoredDocument, Table } from './store.ts'

interface Row {
  readonly owner: string
  readonly text: string
  readonly revision: number
  readonly expiresAt: number
}

/** A store in memory. Everything is lost when the process ends. */
export function createMemoryStore(clock: Pick<Clock, 'now'>): Store {
  const tables = new Map<string, Table<unknown>>()
  return {
    table: <T>(kind: string) => getOrInsert(tables, kind, () => createTable(clock)) as Table<T>,
    close: () => Promise.resolve(),
  }
}

function createTable<T>(clock: Pick<Clock, 'now'>): Table<T> {
  const rows = new Map<string, Row>()
  let revisions = 0
  const live = (id: string): Row | undefined => {
    const row = rows.get(id)
    if (row === undefined || row.expiresAt > clock.now()) return row
    rows.delete(id)
    return undefined
  }
  const stored = (id: string, { owner, text, revision }: Row): StoredDocument<T> => ({
    id,
    owner,
    revision,
    // A copy, so that no caller shares an object with the store.
    value: JSON.parse(text) as T,
  })
  const listed = (owner?: string): [string, Row][] =>
    [...rows.keys()].flatMap((id) => {
      const row = live(id)
      return row && (owner === undefined || row.owner === owner) ? [[id, row] as [string, Row]] : []
    })
  return {
    async get(id) {
      const row = live(id)
      return row && stored(id, row)
    },
    async put({ id, owner, value, expiresAt, atMost }: DocumentWrite<T>, expected) {
      const before = live(id)
      if (expected !== undefined && (before?.revision ?? 0) !== expected) return undefined
      if (atMost !== undefined && !before && listed(owner).length >= atMost) return undefined
      const revision = ++revisions
      rows.set(id, { owner, text: JSON.stringify(value), revision, expiresAt: expiresAt ?? Number.POSITIVE_INFINITY })
      return revision
    },
    async delete(id, expected) {
      const row = live(id)
      return row !== undefined && (expected ?? row.revision) === row.revision && rows.delete(id)
    },
    list: async (owner) => listed(owner).map(([id, row]) => stored(id, row)),
    count: async (owner) => listed(owner).length,
  }
}
