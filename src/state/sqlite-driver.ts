import { closeSync, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { devNull } from 'node:os'
import { messageOf, PegboardError } from '../core/errors.ts'
import { withoutWarnings } from '../core/without-warnings.ts'

/** The common part of `node:sqlite` and `libsql`. */
export interface Database {
  exec(sql: string): void
  prepare(sql: string): Statement
  close(): void
}
export interface Statement {
  run(...values: readonly unknown[]): { readonly changes: number | bigint }
  get(...values: readonly unknown[]): unknown
  all(...values: readonly unknown[]): unknown[]
}

type Driver = new (file: string) => Database

/** Thrown by `openDatabase` on Node.js before 22.13 when libsql cannot be loaded. */
export class SqliteMissingError extends PegboardError {
  constructor(cause: unknown) {
    super(
      'E_STATE',
      'SQLite is not available: this version of Node.js does not include it, and libsql is not installed.',
      {
        hint: 'Run "npm install libsql" where Pegboard is installed, or use Node.js 22.13 or later.',
        cause,
      },
    )
  }
}

/**
 * Opens a database with `node:sqlite`, or with the package libsql where Node.js does not include SQLite.
 * @throws SqliteMissingError; or whatever the driver throws
 */
export function openDatabase(file: string): Database {
  checkFreeDescriptors()
  return new (loadDriver())(file)
}

function loadDriver(): Driver {
  // Node 22 prints an experimental warning; what is used here has not changed since.
  const builtIn = withoutWarnings(() => process.getBuiltinModule?.('node:sqlite'))
  if (builtIn) return (builtIn as unknown as { DatabaseSync: Driver }).DatabaseSync
  try {
    return createRequire(import.meta.url)('libsql') as Driver
  } catch (error) {
    throw new SqliteMissingError(error)
  }
}

/** libsql opens eight files the first time. */
const FREE_DESCRIPTORS = 16

/**
 * libsql aborts the process when it can open only some of its files.
 * @throws the system's error when there are not enough descriptors
 */
function checkFreeDescriptors(): void {
  const descriptors: number[] = []
  try {
    while (descriptors.length < FREE_DESCRIPTORS) descriptors.push(openSync(devNull, 'r'))
  } finally {
    for (const descriptor of descriptors) closeSync(descriptor)
  }
}

/** Classifies an error of either driver. */
export function classifySqliteError(error: unknown): 'damaged' | 'full' | 'locked' | 'read-only' | 'crowded' | 'other' {
  const text = `${(error as { code?: unknown }).code} ${messageOf(error)}`
  if (/SQLITE_(?:CORRUPT|NOTADB)|malformed|not a database/i.test(text)) return 'damaged'
  if (/SQLITE_FULL|disk is full|ENOSPC|EDQUOT/i.test(text)) return 'full'
  if (/SQLITE_(?:BUSY|LOCKED)|is locked/i.test(text)) return 'locked'
  if (/SQLITE_READONLY|readonly|EROFS|EACCES/i.test(text)) return 'read-only'
  if (/EMFILE|ENFILE|too many open files/i.test(text)) return 'crowded'
  return 'other'
}
