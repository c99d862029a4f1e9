import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Table } from './store.ts'

/** Whether a value is what its reader takes it for. One that could not be read at all is `undefined`. */
export type Fits = (value: unknown) => boolean

/** Says of each row once that it cannot be read. */
export type TellUnread = (kind: string, id: string) => void

export function createTeller(log: Pick<Log, 'error'>): TellUnread {
  const told = new Set<string>()
  return (kind, id) => {
    const row = JSON.stringify([kind, id])
    if (!told.has(row)) log.error('something that is kept cannot be read; it is left as it is', { kind, id })
    told.add(row)
  }
}

/**
 * A table whose rows may have been written by another version, or by somebody else: one that does not fit is left as it is, and hides
 * none of the others.
 */
export function readable<T>(table: Table<unknown>, kind: string, fits: Fits, tell: TellUnread): Table<T> {
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
      throw new PegboardError('E_STATE_UNAVAILABLE', 'What is kept of this cannot be read.', {
        hint: 'Another version of Pegboard may have written it; the log of the server says more.',
        retryable: false,
      })
    },
    list: async (owner) => ((await table.list(owner)) as Awaited<ReturnType<Table<T>['list']>>).filter(isFit),
  }
}

/** `undefined` of what is no JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
