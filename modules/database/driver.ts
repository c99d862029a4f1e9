import type { ToolError } from 'pegboard'
import type { Param } from './binding.ts'
import type { Catalog } from './catalog.ts'
import type { Lexis } from './sql.ts'

/** A statement that was looked at, with its values beside it. */
export interface Statement {
  readonly sql: string
  readonly params: readonly Param[]
  /** Names that are called as functions, in small letters. */
  readonly calls?: readonly string[]
  /** All names in it. */
  readonly names?: readonly string[]
}

/** Statements that are run one after the other on one session. */
export interface Work {
  readonly statements: readonly Statement[]
  /** `read`: the database itself refuses to change anything. */
  readonly access: 'read' | 'write'
  /** All or nothing. */
  readonly atomic?: boolean
  /** Of those that are not atomic: what follows a failure is still run. */
  readonly goOn?: boolean
  /** Of each. */
  readonly maxRows: number
  readonly maxBytes: number
  /** Of all together. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** So many are done. */
  onDone?(count: number): void
}

export interface Answer {
  readonly columns: readonly string[]
  /** Values as JSON can say them. */
  readonly rows: readonly (readonly unknown[])[]
  readonly truncated: boolean
  /** Rows that were changed; absent for what changes none. */
  readonly affected?: number
  readonly lastId?: number | string
}

/** What became of each statement, up to the first failure unless it was to go on. */
export type Outcome = Answer | { readonly error: ToolError }

/** What differs between databases in what is written for them. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgresql' | 'mysql'
  readonly lexis: Lexis
  /** First words of what only reads. */
  readonly readVerbs: ReadonlySet<string>
  /** Values that one statement may have. */
  readonly maxParams: number
  /** The `at`th, from 1. */
  placeholder(at: number): string
  quote(name: string): string
  /** What follows INSERT … VALUES to change the rows that are there. */
  onConflict(conflict: readonly string[], update: readonly string[]): string
  /** A column as text, compared without regard to case. */
  like(column: string, placeholder: string): string
  equals(column: string, placeholder: string): string
}

/** The way to one database. */
export interface Driver {
  readonly dialect: Dialect
  readonly catalog: Catalog
  /**
   * @throws ToolError E_READ_ONLY, E_SQL_MULTI_STATEMENT, E_TIMEOUT, E_DB_UNAVAILABLE, E_DB_BUSY, E_DB_CORRUPT, E_TOOL_FAILED:
   * for atomic work and where nothing could be begun
   */
  run(work: Work): Promise<readonly Outcome[]>
  /** What has to be known of whom it works as before it only reads: how it could still do more, or nothing. */
  powers(): Promise<Powers | undefined>
  close(): Promise<void>
}

export interface Powers {
  /** In words: "the role app may write to orders". */
  readonly reason: string
}

/** Where a database is. */
export interface Target {
  readonly driver: Dialect['name']
  /** Of SQLite the file, absolute, or `:memory:`. */
  readonly database: string
  readonly host?: string
  readonly port?: number
  readonly username?: string
  readonly password?: string
  /** The variable of the environment that has it. */
  readonly passwordEnv?: string
  readonly ssl?: 'off' | 'require' | 'verify'
  readonly ca?: string
  /** Functions that reading statements may call although they might do more. */
  readonly allowedFunctions: readonly string[]
  /** Makes the file of SQLite where there is none. */
  readonly create?: boolean
  readonly busyMs: number
  readonly connectMs: number
  readonly maxSessions: number
}
