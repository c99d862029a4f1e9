import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Table } from './store.ts'

/** Checks the shape of a stored value. `undefined` means that the value could not be read at all. */
export type ValueCheck = (value: unknown) => boolean

/** Reports an unreadable row, once per row. */
export type ReportUnreadable = (kind: string, id: string) => void

export function createUnreadableReporter(log: Pick<Log, 'error'>): ReportUnreadable {
  const reported = new Set<string>()
  return (kind, id) => {
    const row = JSON.stringify([kind, id])
    if (!reported.has(row)) log.error('a stored value cannot be read; Pegboard leaves it unchanged', { kind, id })
    reported.add(row)
  }
}

/** A view of a table without the rows that do not fit: another version or program may have written them. */
export function createReadableTable<T>(
  table: Table<unknown>,
  kind: string,
  fits: ValueCheck,
  tell: ReportUnreadable,
): Table<T> {
  const isFit = ({ id, value }: { readonly id: string; readonly value: unknown }): boolean => {
    if (value !== undefined && fits(value)) return true
    tell(kind, id)
    return false
  }
  return {
    ...(table as Table<T>),
    async get(id) {
      const row = await table.get(id)
      if (row === undefined || isFit(row)) return row as Awaited<ReturnType<Table<T>['get']>>
      throw new PegboardError('E_STATE_UNAVAILABLE', 'The stored value cannot be read.', {
        hint: 'Another version of Pegboard may have written it. The log of the server has details.',
        class: 'server_setup',
      })
    },
    list: async (owner) => ((await table.list(owner)) as Awaited<ReturnType<Table<T>['list']>>).filter(isFit),
  }
}
