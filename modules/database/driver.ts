import type { ToolError } from 'pegboard'
import type { Param } from './binding.ts'
import type { LexicalRules } from './sql.ts'
import type { Catalog } from './table-catalog.ts'

/** A checked statement with its values. */
export interface Statement {
  readonly sql: string
  readonly params: readonly Param[]
  /** Lower-case names that are called as functions. */
  readonly calls?: readonly string[]
  /** Names after a dot, which PostgreSQL may also call as functions. */
  readonly dotted?: readonly string[]
  /** All names in the statement. */
  readonly names?: readonly string[]
}

/** Statements that run in order in one session. */
export interface Batch {
  readonly statements: readonly Statement[]
  /** `read`: the database itself rejects changes. */
  readonly access: 'read' | 'write'
  /** All or nothing. */
  readonly atomic?: boolean
  /** Without `atomic`: continue after a failure. */
  readonly continueOnError?: boolean
  /** Per statement. */
  readonly maxRows: number
  readonly maxBytes: number
  /** For all statements together. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Each principal has its own queue. */
  readonly principal: string
  /** Called with the number of finished statements. */
  onDone?(count: number): void
}

export interface Answer {
  readonly columns: readonly string[]
  /** Values that JSON can represent. */
  readonly rows: readonly (readonly unknown[])[]
  readonly truncated: boolean
  /** Number of changed rows; absent for statements that change none. */
  readonly affected?: number
  readonly lastId?: number | string
}

/** Result of each statement, up to the first failure unless it was to continue. */
export type StatementOutcome = Answer | { readonly error: ToolError }

/** Differences between databases in the SQL written for them. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgresql' | 'mysql'
  readonly lexicalRules: LexicalRules
  /** First words of read-only statements. */
  readonly readVerbs: ReadonlySet<string>
  /** Maximum number of values per statement. */
  readonly maxParams: number
  placeholder(position: number): string
  quote(name: string): string
  /** The clause after INSERT … VALUES that updates existing rows. */
  onConflict(conflict: readonly string[], update: readonly string[]): string
  /** A case-insensitive comparison of a column as text. */
  like(column: string, placeholder: string): string
  equals(column: string, placeholder: string): string
}

/** Access to one database. */
export interface Driver {
  readonly dialect: Dialect
  readonly catalog: Catalog
  /**
   * @throws ToolError E_READ_ONLY, E_SQL_MULTI_STATEMENT, E_TIMEOUT, E_DB_UNAVAILABLE, E_DB_BUSY, E_DB_CORRUPT,
   * E_TOOL_FAILED for atomic work, or if nothing could be started
   */
  run(batch: Batch): Promise<readonly StatementOutcome[]>
  /** The rights of the login that could undermine read-only access; undefined if there are none. */
  checkRole(): Promise<RoleWarning | undefined>
  close(): Promise<void>
}

export interface RoleWarning {
  /** In words: "the role app may write to orders". */
  readonly reason: string
}

/** Where a database is. */
export interface Target {
  readonly driver: Dialect['name']
  /** For SQLite: the absolute path, or `:memory:`. */
  readonly database: string
  readonly host?: string
  readonly port?: number
  readonly username?: string
  readonly password?: string
  /** Environment variable with the password. */
  readonly passwordEnv?: string
  readonly ssl?: 'off' | 'require' | 'verify'
  readonly ca?: string
  /** Functions that `readonly` and `safe_write` statements may call although they might change something. */
  readonly allowedFunctions: readonly string[]
  /** Creates the SQLite file if it is missing. */
  readonly create?: boolean
  readonly busyMs: number
  readonly connectMs: number
  readonly maxSessions: number
}
