import { closeSync, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { devNull } from 'node:os'
import { messageOf, PegboardError } from '../core/errors.ts'

/** What `node:sqlite` and `libsql` have in common. */
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

export const NO_DRIVER = 'There is nothing here to keep state in'

/** @throws PegboardError E_STATE, whose message begins with `NO_DRIVER`, where there is no SQLite; whatever the driver throws */
export function openDatabase(file: string): Database {
  makeRoom()
  const require = createRequire(import.meta.url)
  const builtIn = quietly(() => process.getBuiltinModule?.('node:sqlite')) as
    | { readonly DatabaseSync: new (file: string) => Database }
    | undefined
  if (builtIn) return new builtIn.DatabaseSync(file)
  let Driver: new (file: string) => Database
  try {
    Driver = require('libsql') as typeof Driver
  } catch (error) {
    throw new PegboardError('E_STATE', `${NO_DRIVER}: libsql is not installed.`, {
      hint: 'npm install libsql, or use Node 22.13 or newer, which has SQLite of its own.',
      cause: error,
    })
  }
  return new Driver(file)
}

/** libsql opens eight the first time. */
const ROOM = 16

/** libsql ends the process where it gets some of the files it opens and not all. @throws what the system says where there is no room for them */
function makeRoom(): void {
  const held: number[] = []
  try {
    while (held.length < ROOM) held.push(openSync(devNull, 'r'))
  } finally {
    for (const descriptor of held) closeSync(descriptor)
  }
}

/** Node 22 says of its SQLite that it is experimental, each time; what is used of it has not changed since. */
function quietly<T>(work: () => T): T {
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return work()
  } finally {
    process.emitWarning = emitWarning
  }
}

/** What is wrong, by what either driver says. */
export function troubleOf(error: unknown): 'damaged' | 'full' | 'locked' | 'read-only' | 'crowded' | 'other' {
  const said = `${(error as { code?: unknown }).code} ${messageOf(error)}`
  if (/SQLITE_(?:CORRUPT|NOTADB)|malformed|not a database/i.test(said)) return 'damaged'
  if (/SQLITE_FULL|disk is full|ENOSPC|EDQUOT/i.test(said)) return 'full'
  if (/SQLITE_(?:BUSY|LOCKED)|is locked/i.test(said)) return 'locked'
  if (/SQLITE_READONLY|readonly|EROFS|EACCES/i.test(said)) return 'read-only'
  if (/EMFILE|ENFILE|too many open files/i.test(said)) return 'crowded'
  return 'other'
}
