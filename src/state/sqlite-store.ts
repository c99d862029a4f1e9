import { chmodSync, closeSync, existsSync, mkdirSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { createMemoryStore } from './memory-store.ts'
import { createReadableTable, createUnreadableReporter } from './readable-rows.ts'
import { classifySqliteError, type Database, openDatabase, SqliteMissingError } from './sqlite-driver.ts'
import { checkFolder, type StatFolder, statFolder } from './state-folder.ts'
import type { Store, StoredDocument, Table } from './store.ts'

/** Each migration runs once, in this order. Never edit one; only add new ones. */
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

/** How long one attempt waits for another writer. Waiting blocks the event loop, so writing retries in short steps. */
const WAIT_MS = { opening: 1_000, writing: 20 } as const
const PATIENCE_MS = 5_000
const AGAIN_MS = 25

/**
 * Opens the state file, and creates it if there is none. A damaged file is renamed, never deleted, and the store then
 * reports that data was lost.
 * @throws PegboardError E_STATE when the file cannot be opened, was written by a newer version or lies on another
 * machine; E_STATE_UNAVAILABLE when the disk is full or another process holds the file
 */
export function openSqliteStore(
  file: string,
  clock: Pick<Clock, 'now'>,
  log: Pick<Log, 'error' | 'warn'>,
  look: StatFolder = statFolder,
): Store {
  const isNew = !existsSync(file)
  const aside = `${file}.corrupt-${new Date(clock.now()).toISOString().replaceAll(/[:.]/g, '-')}`
  const renameDamaged = (): void => {
    for (const ending of ['', '-wal', '-shm']) if (existsSync(file + ending)) renameSync(file + ending, aside + ending)
  }
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    checkFolder(dirname(file), log, look)
    const lost = wasEmptied(file, clock)
    // SQLite would otherwise delete the write-ahead log of the missing file.
    if (lost) renameDamaged()
    else if (isCutOff(file))
      log.error(
        'the WAL beside the state file is gone, although the file was not closed: the last writes are lost, unless another program wrote them to the file',
        { file: `${file}-wal` },
      )
    const database = openDatabaseFile(file)
    if (lost) {
      log.error('the state file is empty, but it had data before: scheduled work is lost', { file: aside })
      noteLoss(database, clock)
    }
    return keepMarker(file, storeOf(database, clock, log))
  } catch (error) {
    if (isNew || classifySqliteError(error) !== 'damaged') throw createFileError(file, error)
    renameDamaged()
    log.error('the state file is damaged; Pegboard moved it aside and started a new one: scheduled work is lost', {
      file: aside,
      error: messageOf(error),
    })
    const database = openDatabaseFile(file)
    noteLoss(database, clock)
    return keepMarker(file, storeOf(database, clock, log))
  }
}

/** Name of the counter that says when a damaged file was renamed. */
const LOST = 'lost'
const noteLoss = (database: Database, clock: Pick<Clock, 'now'>): void =>
  void database.prepare('INSERT OR REPLACE INTO counters VALUES (?, ?)').run(LOST, clock.now())

/** A file that another process is creating is empty for this long at most. */
const MAKING_MS = 10_000

/** Our files are larger once their write-ahead log has been merged. */
const PAGE_BYTES = 4_096

/** True if an empty file had content: it is old, or has a write-ahead log that an empty file cannot have. */
function wasEmptied(file: string, clock: Pick<Clock, 'now'>): boolean {
  const [main, wal] = [file, `${file}-wal`].map((one) => statSync(one, { throwIfNoEntry: false }))
  if (wal && wal.size > 0) return main === undefined || main.size === 0
  return main?.isFile() === true && main.size <= PAGE_BYTES && clock.now() - main.mtimeMs > MAKING_MS
}

/** While this marker exists, a process has the file open or died with it open; SQLite then leaves its log behind. */
const MARK = '-open'

// The log is checked first, because closing removes the marker before SQLite removes the log.
const isCutOff = (file: string): boolean => !existsSync(`${file}-wal`) && existsSync(file + MARK)

function keepMarker(file: string, store: Store): Store {
  const mark = (): void => {
    try {
      closeSync(openSync(file + MARK, 'a', 0o600))
    } catch {
      // Without the marker, a missing log is not noticed. Nothing else depends on it.
    }
  }
  mark()
  return {
    ...store,
    async close() {
      try {
        rmSync(file + MARK, { force: true })
      } finally {
        await store.close()
      }
      // Other processes still have the file open.
      if (existsSync(`${file}-wal`)) mark()
    },
  }
}

/** Opens the store, or falls back to a store in memory with one clear warning when there is no SQLite. */
export function openStateStore(file: string, clock: Pick<Clock, 'now'>, log: Pick<Log, 'error' | 'warn'>): Store {
  try {
    return openSqliteStore(file, clock, log)
  } catch (error) {
    if (!(error instanceof SqliteMissingError)) throw error
    log.warn(
      `${error.message} Tasks, schedules, watchers, notices and facts are kept in memory and lost at a restart.`,
      { hint: error.hint },
    )
    return createMemoryStore(clock)
  }
}

function openDatabaseFile(file: string): Database {
  const isNew = !existsSync(file)
  const database = openDatabase(file)
  try {
    database.exec(`PRAGMA busy_timeout = ${WAIT_MS.opening}`)
    // The file contains arguments of tools. SQLite gives its companion files the same permissions.
    if (isNew) {
      closeSync(openSync(file, 'a', 0o600))
      chmodSync(file, 0o600)
    }
    refuseNewer(database, file)
    // Claims must survive a power cut, so each commit is on the disk before it counts.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    const [check] = database.prepare('PRAGMA quick_check(1)').all() as { quick_check: string }[]
    if (check?.quick_check !== 'ok')
      throw Object.assign(new Error(String(check?.quick_check)), { code: 'SQLITE_CORRUPT' })
    migrate(database)
    database.exec(`PRAGMA busy_timeout = ${WAIT_MS.writing}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

const versionOf = (database: Database): number =>
  (database.prepare('PRAGMA user_version').get() as { user_version: number }).user_version

/** Runs before anything is written. @throws PegboardError E_STATE */
function refuseNewer(database: Database, file: string): void {
  const version = versionOf(database)
  if (version > MIGRATIONS.length)
    throw new PegboardError(
      'E_STATE',
      `${file} was written by a newer version of Pegboard: it has schema version ${version}, and this one knows versions up to ${MIGRATIONS.length}.`,
      { hint: 'Update Pegboard, or set dirs.state to another folder.' },
    )
}

function migrate(database: Database): void {
  const version = versionOf(database)
  for (const [at, sql] of MIGRATIONS.entries()) {
    if (at < version) continue
    database.exec('BEGIN IMMEDIATE')
    // Another process may have run the migration.
    if (versionOf(database) <= at) {
      database.exec(sql)
      database.exec(`PRAGMA user_version = ${at + 1}`)
    }
    database.exec('COMMIT')
  }
}

/** The reason, phrased to follow "because", and what to do. No text contains a path. */
const FAILURE_TEXTS = {
  full: ['the disk is full', 'Free space on the disk of dirs.state. Pegboard then continues by itself.'],
  locked: ['another process holds the state file', 'Stop the program that reads or copies it, then try again.'],
  crowded: ['too many files are open', 'Raise the limit of the system (ulimit -n). Pegboard then continues by itself.'],
  'read-only': ['the state file is read-only', 'Check the permissions of the state folder (dirs.state).'],
  damaged: ['the state file is damaged', 'Restart the server. It moves the file aside and keeps it.'],
} as const

function explainFailure(error: unknown): readonly [what: string, hint: string] {
  const trouble = classifySqliteError(error)
  return trouble === 'other'
    ? [messageOf(error), 'Check the disk and the permissions of the state folder (dirs.state), then try again.']
    : FAILURE_TEXTS[trouble]
}

/** Failures that can pass by themselves are marked as retryable. */
const createFileError = (file: string, error: unknown): PegboardError => {
  if (error instanceof PegboardError) return error
  const passes = ['full', 'locked', 'crowded'].includes(classifySqliteError(error))
  const [what, hint] = explainFailure(error)
  return new PegboardError(
    passes ? 'E_STATE_UNAVAILABLE' : 'E_STATE',
    `The state file ${file} cannot be used: ${what}.`,
    {
      hint: passes ? hint : `${hint} Or set dirs.state to another folder.`,
      cause: error,
    },
  )
}

const createAccessError = (what: 'written' | 'read', error: unknown): PegboardError => {
  const [why, hint] = explainFailure(error)
  return new PegboardError('E_STATE_UNAVAILABLE', `The state could not be ${what}: ${why}.`, {
    hint,
    cause: error,
  })
}

type Row = StoredDocument<string>

function storeOf(database: Database, clock: Pick<Clock, 'now'>, log: Pick<Log, 'error'>): Store {
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
  const stored = ({ id, owner, value, revision }: Row): StoredDocument<unknown> => ({
    id,
    owner,
    revision: Number(revision),
    value: tryParseJson(value),
  })
  const got = (kind: string, id: string): StoredDocument<unknown> | undefined => {
    const row = sql.get.get(kind, id, clock.now()) as Row | undefined
    return row && stored(row)
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
      throw createAccessError('read', error)
    }
  }
  // Writes of one event loop turn share a commit, because syncing the disk is the main cost.
  let waiting: Array<{ run(): void; fail(error: unknown): void; done(): void }> = []
  let lockedAt: number | undefined
  /** @param last true if there is no later attempt */
  const flush = (last = false): void => {
    if (waiting.length === 0) return
    const all = waiting
    let failure: PegboardError | undefined
    try {
      database.exec('BEGIN IMMEDIATE')
      try {
        for (const { run } of all) run()
        database.exec('COMMIT')
      } catch (error) {
        try {
          database.exec('ROLLBACK')
        } catch {
          // Some failures have already rolled back.
        }
        throw error
      }
    } catch (error) {
      if (!last && classifySqliteError(error) === 'locked') {
        lockedAt ??= performance.now()
        // Another process is writing. Try again shortly, so that this process can do other work.
        if (performance.now() - lockedAt < PATIENCE_MS) return void setTimeout(() => flush(), AGAIN_MS)
      }
      failure = createAccessError('written', error)
    }
    lockedAt = undefined
    waiting = []
    for (const { done, fail } of all) failure ? fail(failure) : done()
  }
  const written = <R>(work: () => R): Promise<R> =>
    new Promise((resolve, fail) => {
      if (waiting.length === 0) setImmediate(() => flush())
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
  const tell = createUnreadableReporter(log)
  let closed = false
  const lost = database.prepare('SELECT value FROM counters WHERE name = ?').get(LOST) as { value: number } | undefined
  sql.sweep.run(clock.now())

  return {
    ...(lost ? { lostAt: Number(lost.value) } : {}),
    table<T>(kind: string, fits: (value: unknown) => boolean = () => true): Table<T> {
      const table: Table<unknown> = {
        get: (id) => read(() => got(kind, id)),
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
              (row) => stored(row as Row),
            ),
          ),
        count: (owner) => read(() => counted(kind, owner)),
      }
      return createReadableTable<T>(table, kind, fits, tell)
    },
    async close() {
      if (closed) return
      closed = true
      database.exec(`PRAGMA busy_timeout = ${WAIT_MS.opening}`)
      flush(true)
      database.close()
    },
  }
}
