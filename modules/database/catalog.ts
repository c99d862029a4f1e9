/** What there is in a database, said alike for all kinds. */
export interface Table {
  readonly name: string
  /** Absent where there is but one, or it is the usual one. */
  readonly schema?: string
  readonly type: 'table' | 'view'
  /** About so many; absent where the database does not know. */
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

/** Runs a reading statement: rows with their values in the order of the columns. */
export type Ask = (sql: string, params?: readonly (string | null)[]) => Promise<readonly (readonly unknown[])[]>

/** How a kind of database is asked what it holds. */
export interface Catalog {
  tables(ask: Ask): Promise<readonly Table[]>
  /** Of these tables, or of all. */
  shapes(ask: Ask, tables?: readonly Table[]): Promise<readonly TableShape[]>
  /** Functions and procedures that people made. */
  routines(ask: Ask): Promise<readonly Routine[]>
  /** Which of these names, in small letters, are tables or views, those of the system among them. */
  relations(ask: Ask, names: readonly string[]): Promise<readonly string[]>
}

/** As it is written in a statement without quotes: `orders`, `sales.orders`. */
export const fullName = ({ name, schema }: Pick<Table, 'name' | 'schema'>): string =>
  schema === undefined ? name : `${schema}.${name}`

/** Rows by the table they are of, in the order they came. */
export function byTable(rows: readonly (readonly unknown[])[]): ReadonlyMap<string, readonly (readonly unknown[])[]> {
  const found = new Map<string, (readonly unknown[])[]>()
  for (const [schema, table, ...row] of rows) {
    const key = `${schema ?? ''}\0${table}`
    const own = found.get(key)
    if (own) own.push(row)
    else found.set(key, [row])
  }
  return found
}
