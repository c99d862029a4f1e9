import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import type { Clock } from '../core/clock.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { createMemoryStore } from './memory.ts'
import type { Store, Stored, Table } from './store.ts'

/** What `node:sqlite` and `libsql` have in common. */
interface Database {
  exec(sql: string): void
  prepare(sql: string): Statement
  close(): void
}
interface Statement {
  run(...values: readonly unknown[]): { readonly changes: number | bigint }
  get(...values: readonly unknown[]): unknown
  all(...values: readonly unknown[]): unknown[]
}

/** Each one is done once, in this order; never edited, only added to. */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE documents (
     kind TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, value TEXT NOT NULL,
     revision INTEGER NOT NULL, expires REAL, PRIMARY KEY (kind, id)
   ) STRICT;
   CREATE INDEX documents_by_owner ON documents (kind, owner);
   CREATE INDEX documents_by_end ON documents (expires) WHERE expires IS NOT NULL;
   CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
   INSERT INTO counters VALUES ('revision', 0);`,
]

/** Another process may be writing. */
const BUSY_MS = 5_000

/**
 * Opens the file, makes it where there is none. A file that is damaged is put aside under a name that says so, never deleted.
 * @throws PegboardError E_STATE when it cannot be opened, or was written by a newer version
 */
export function openSqliteStore(file: string, clock: Pick<Clock, 'now'>, log: Pick<Log, 'error'>): Store {
  const made = !existsSync(file)
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  let database: Database
  try {
    database = openSound(file)
  } catch (error) {
    if (made || !isDamage(error)) throw unusable(file, error)
    const aside = `${file}.damaged-${new Date(clock.now()).toISOString().replaceAll(/[:.]/g, '-')}`
    for (const ending of ['', '-wal', '-shm']) if (existsSync(file + ending)) renameSync(file + ending, aside + ending)
    log.error('the state file is damaged; it was put aside and a new one begun', {
      file: aside,
      error: messageOf(error),
    })
    database = openSound(file)
  }
  return storeOf(database, clock)
}

/** The same, or a store that forgets at the end of the process where there is no SQLite here, with a warning that says so. */
export function openStateStore(file: string, clock: Pick<Clock, 'now'>, log: Pick<Log, 'error' | 'warn'>): Store {
  try {
    return openSqliteStore(file, clock, log)
  } catch (error) {
    if (!isPegboardError(error) || error.cause === undefined || !error.message.startsWith(NO_DRIVER)) throw error
    log.warn(`${error.message} Until then nothing that clients plan survives a restart.`, { hint: error.hint })
    return createMemoryStore(clock)
  }
}

const NO_DRIVER = 'There is nothing here to keep state in'

function openSound(file: string): Database {
  const database = open(file)
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    // Claims must hold after a power cut: every commit is on the disk before it counts.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    const [check] = database.prepare('PRAGMA quick_check(1)').all() as { quick_check: string }[]
    if (check?.quick_check !== 'ok')
      throw Object.assign(new Error(String(check?.quick_check)), { code: 'SQLITE_CORRUPT' })
    migrate(database, file)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

function open(file: string): Database {
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

function migrate(database: Database, file: string): void {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number }
  if (version > MIGRATIONS.length)
    throw new PegboardError('E_STATE', `${file} was written by a newer version of Pegboard.`, {
      hint: 'Update Pegboard, or set dirs.state to another folder.',
    })
  for (const [at, sql] of MIGRATIONS.entries()) {
    if (at < version) continue
    database.exec('BEGIN IMMEDIATE')
    // Another process may have been faster.
    const now = database.prepare('PRAGMA user_version').get() as { user_version: number }
    if (now.user_version <= at) {
      database.exec(sql)
      database.exec(`PRAGMA user_version = ${at + 1}`)
    }
    database.exec('COMMIT')
  }
}

const isDamage = (error: unknown): boolean =>
  /SQLITE_(?:CORRUPT|NOTADB)|malformed|not a database/i.test(
    `${(error as { code?: unknown }).code} ${messageOf(error)}`,
  )

const unusable = (file: string, error: unknown): PegboardError =>
  error instanceof PegboardError
    ? error
    : new PegboardError('E_STATE', `The state file ${file} cannot be used: ${messageOf(error)}.`, {
        hint: 'Look at the rights of the file and its folder, or set dirs.state to another folder.',
        cause: error,
      })

/** What SQLite says of a full disk, a lock or a file that may only be read names no path. */
const failed = (what: 'written' | 'read', error: unknown): PegboardError =>
  new PegboardError('E_STATE', `What must survive a restart could not be ${what}: ${messageOf(error)}.`, {
    hint: 'Look at the disk and at the rights of the state folder (dirs.state), then try again.',
    cause: error,
  })

interface Row {
  readonly id: string
  readonly owner: string
  readonly value: string
  readonly revision: number
}

function storeOf(database: Database, clock: Pick<Clock, 'now'>): Store {
  const alive = '(expires IS NULL OR expires > ?)'
  const columns = 'id, owner, value, revision'
  const sql = {
    get: database.prepare(`SELECT ${columns} FROM documents WHERE kind = ? AND id = ? AND ${alive}`),
    revision: database.prepare(`SELECT revision FROM documents WHERE kind = ? AND id = ? AND ${alive}`),
    list: database.prepare(`SELECT ${columns} FROM documents WHERE kind = ? AND ${alive} ORDER BY rowid`),
    listOf: database.prepare(
      `SELECT ${columns} FROM documents WHERE kind = ? AND ${alive} AND owner = ? ORDER BY rowid`,
    ),
    count: database.prepare(`SELECT count(*) AS n FROM documents WHERE kind = ? AND ${alive}`),
    countOf: database.prepare(`SELECT count(*) AS n FROM documents WHERE kind = ? AND ${alive} AND owner = ?`),
    delete: database.prepare('DELETE FROM documents WHERE kind = ? AND id = ?'),
    next: database.prepare(`UPDATE counters SET value = value + 1 WHERE name = 'revision' RETURNING value`),
    put: database.prepare(
      `INSERT INTO documents (kind, id, owner, value, revision, expires) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (kind, id) DO UPDATE
       SET owner = excluded.owner, value = excluded.value, revision = excluded.revision, expires = excluded.expires`,
    ),
    sweep: database.prepare('DELETE FROM documents WHERE expires <= ?'),
  }
  const stored = <T>({ id, owner, value, revision }: Row): Stored<T> => ({
    id,
    owner,
    revision: Number(revision),
    value: JSON.parse(value) as T,
  })
  const got = <T>(kind: string, id: string): Stored<T> | undefined => {
    const row = sql.get.get(kind, id, clock.now()) as Row | undefined
    return row && stored<T>(row)
  }
  const revisionOf = (kind: string, id: string): number =>
    Number((sql.revision.get(kind, id, clock.now()) as Row | undefined)?.revision ?? 0)
  const counted = (kind: string, owner?: string): number => {
    const now = clock.now()
    const row = owner === undefined ? sql.count.get(kind, now) : sql.countOf.get(kind, now, owner)
    return Number((row as { n: number }).n)
  }
  const read = async <R>(work: () => R): Promise<R> => {
    try {
      return work()
    } catch (error) {
      throw failed('read', error)
    }
  }
  // What is written in one turn is one commit: waiting for the disk is what writing costs.
  let waiting: Array<{ run(): void; fail(error: unknown): void; done(): void }> = []
  const flush = (): void => {
    const all = waiting
    waiting = []
    if (all.length === 0) return
    try {
      database.exec('BEGIN IMMEDIATE')
      try {
        for (const { run } of all) run()
        database.exec('COMMIT')
      } catch (error) {
        database.exec('ROLLBACK')
        throw error
      }
    } catch (error) {
      const failure = failed('written', error)
      for (const { fail } of all) fail(failure)
      return
    }
    for (const { done } of all) done()
  }
  const written = <R>(work: () => R): Promise<R> =>
    new Promise((resolve, fail) => {
      if (waiting.length === 0) setImmediate(flush)
      let result: R
      waiting.push({
        run() {
          result = work()
        },
        fail,
        done: () => resolve(result),
      })
    })
  let writes = 0
  let closed = false
  sql.sweep.run(clock.now())

  return {
    table<T>(kind: string): Table<T> {
      return {
        get: (id) => read(() => got<T>(kind, id)),
        put({ id, owner, value, expiresAt, atMost }, expected) {
          const text = JSON.stringify(value)
          return written(() => {
            if (++writes % 1_000 === 0) sql.sweep.run(clock.now())
            if (expected !== undefined && revisionOf(kind, id) !== expected) return undefined
            if (atMost !== undefined && revisionOf(kind, id) === 0 && counted(kind, owner) >= atMost) return undefined
            const { value: revision } = sql.next.get() as { value: number }
            sql.put.run(kind, id, owner, text, revision, expiresAt ?? null)
            return Number(revision)
          })
        },
        delete: (id, expected) =>
          written(
            () =>
              (expected === undefined || revisionOf(kind, id) === expected) &&
              Number(sql.delete.run(kind, id).changes) > 0,
          ),
        list: (owner) =>
          read(() =>
            (owner === undefined ? sql.list.all(kind, clock.now()) : sql.listOf.all(kind, clock.now(), owner)).map(
              (row) => stored<T>(row as Row),
            ),
          ),
        count: (owner) => read(() => counted(kind, owner)),
      }
    },
    async close() {
      if (closed) return
      closed = true
      flush()
      database.close()
    },
  }
}
