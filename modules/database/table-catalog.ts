/** The content of a database, in the same form for all kinds. */
export interface Table {
  readonly name: string
  /** Absent if there is only one schema, or if it is the default one. */
  readonly schema?: string
  readonly type: 'table' | 'view'
  /** Estimated; absent if the database does not know. */
  readonly rows?: number
}

export interface Column {
  readonly name: string
  readonly type: string
  readonly nullable: boolean
  readonly default?: string
  readonly primary_key?: boolean
  readonly comment?: string
}

export interface Index {
  readonly name: string
  readonly columns: readonly string[]
  readonly unique: boolean
}

export interface ForeignKey {
  readonly columns: readonly string[]
  readonly references: string
  readonly referenced_columns: readonly string[]
  readonly on_delete?: string
  readonly on_update?: string
}

export interface TableShape {
  readonly name: string
  readonly schema?: string
  readonly columns: readonly Column[]
  readonly indexes: readonly Index[]
  readonly foreign_keys: readonly ForeignKey[]
}

export interface Routine {
  readonly name: string
  readonly schema?: string
  readonly type: 'function' | 'procedure'
  readonly arguments?: string
  readonly returns?: string
  readonly language?: string
  readonly definition?: string
}

/** Runs a reading statement; returns rows with values in column order. */
export type RunQuery = (sql: string, params?: readonly (string | null)[]) => Promise<readonly (readonly unknown[])[]>

/** How to read the structure of one kind of database. */
export interface Catalog {
  tables(runQuery: RunQuery): Promise<readonly Table[]>
  /** The structure of these tables, or of all. */
  shapes(runQuery: RunQuery, tables?: readonly Table[]): Promise<readonly TableShape[]>
  /** User-defined functions and procedures. */
  routines(runQuery: RunQuery): Promise<readonly Routine[]>
  /** Which of these lower-case names are tables or views, including system ones. */
  relations(runQuery: RunQuery, names: readonly string[]): Promise<readonly string[]>
}

/** As written in a statement without quotes: `orders`, `sales.orders`. */
export const fullName = ({ name, schema }: Pick<Table, 'name' | 'schema'>): string =>
  schema === undefined ? name : `${schema}.${name}`

/** A cell of a result; NULL is an empty text. */
export const text = (value: unknown): string => String(value ?? '')

/** Groups rows by table, keeping their order. */
export function groupByTable(
  rows: readonly (readonly unknown[])[],
): ReadonlyMap<string, readonly (readonly unknown[])[]> {
  const rowsByTable = new Map<string, (readonly unknown[])[]>()
  for (const [schema, table, ...row] of rows) {
    const key = `${schema ?? ''}\0${table}`
    const tableRows = rowsByTable.get(key)
    if (tableRows) tableRows.push(row)
    else rowsByTable.set(key, [row])
  }
  return rowsByTable
}
