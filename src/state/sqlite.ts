import { chmodSync, closeSync, existsSync, mkdirSync, openSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Clock } from '../core/clock.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Database, NO_DRIVER, openDatabase, troubleOf } from './driver.ts'
import { checkFolder, type FolderLook, lookAt } from './folder.ts'
import { createMemoryStore } from './memory.ts'
import { createTeller, parsed, readable } from './readable.ts'
import type { Store, Stored, Table } from './store.ts'

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

/** Another process may be writing. While this one waits for it in one go it does nothing else, so most of that is done in steps. */
const WAIT_MS = { opening: 1_000, writing: 20 } as const
const PATIENCE_MS = 5_000
const AGAIN_MS = 25

/**
 * Opens the file, makes it where there is none. A file that is damaged is put aside under a name that says so, never deleted; the
 * store knows then that something was lost.
 * @throws PegboardError E_STATE when it cannot be opened, was written by a newer version or lies on another machine;
 *   E_STATE_UNAVAILABLE when the disk is full or another process holds it
 */
export function openSqliteStore(
  file: string,
  clock: Pick<Clock, 'now'>,
  log: Pick<Log, 'error' | 'warn'>,
  look: FolderLook = lookAt,
): Store {
  const made = !existsSync(file)
  const aside = `${file}.corrupt-${new Date(clock.now()).toISOString().replaceAll(/[:.]/g, '-')}`
  const putAside = (): void => {
    for (const ending of ['', '-wal', '-shm']) if (existsSync(file + ending)) renameSync(file + ending, aside + ending)
  }
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    checkFolder(dirname(file), log, look)
    const lost = isEmptied(file, clock)
    // SQLite would delete what was not yet written into a file that is not there any more.
    if (lost) putAside()
    else if (isCutOff(file))
      log.error(
        'the log beside the state file is gone, though nobody had closed it: what was written last is lost, unless another program wrote it into the file',
        { file: `${file}-wal` },
      )
    const database = openSound(file)
    if (lost) {
      log.error('the state file is empty, and was not before: what was planned is not', { file: aside })
      noteLoss(database, clock)
    }
    return marked(file, storeOf(database, clock, log))
  } catch (error) {
    if (made || troubleOf(error) !== 'damaged') throw unusable(file, error)
    putAside()
    log.error('the state file is damaged; it was put aside and a new one begun: what was planned is not', {
      file: aside,
      error: messageOf(error),
    })
    const database = openSound(file)
    noteLoss(database, clock)
    return marked(file, storeOf(database, clock, log))
  }
}

/** The counter that says when a damaged file was put aside. */
const LOST = 'lost'
const noteLoss = (database: Database, clock: Pick<Clock, 'now'>): void =>
  void database.prepare('INSERT OR REPLACE INTO counters VALUES (?, ?)').run(LOST, clock.now())

/** One that another process makes at this moment is empty, too. */
const MAKING_MS = 10_000

/** Ours have more of them, once what is in the log beside is written into the file. */
const PAGE_BYTES = 4_096

/** Whether there is nothing in the file, though there was: it is old, or has a log beside it that cannot belong to nothing. */
function isEmptied(file: string, clock: Pick<Clock, 'now'>): boolean {
  const [main, wal] = [file, `${file}-wal`].map((one) => statSync(one, { throwIfNoEntry: false }))
  if (wal && wal.size > 0) return main === undefined || main.size === 0
  return main?.isFile() === true && main.size <= PAGE_BYTES && clock.now() - main.mtimeMs > MAKING_MS
}

/** While this is there, somebody has the file open, or died with it open: then SQLite leaves its log beside it. */
const MARK = '-open'

// The log first: whoever closes takes the mark away before SQLite takes the log.
const isCutOff = (file: string): boolean => !existsSync(`${file}-wal`) && existsSync(file + MARK)

function marked(file: string, store: Store): Store {
  const mark = (): void => {
    try {
      closeSync(openSync(file + MARK, 'a', 0o600))
    } catch {
      // Without it a missing log is not noticed, and nothing else is wrong.
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
      // Others have it open still.
      if (existsSync(`${file}-wal`)) mark()
    },
  }
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

function openSound(file: string): Database {
  const isNew = !existsSync(file)
  const database = openDatabase(file)
  try {
    database.exec(`PRAGMA busy_timeout = ${WAIT_MS.opening}`)
    // It holds what tools were given; the files that SQLite makes beside it get the rights of this one.
    if (isNew) {
      closeSync(openSync(file, 'a', 0o600))
      chmodSync(file, 0o600)
    }
    refuseNewer(database, file)
    // Claims must hold after a power cut: every commit is on the disk before it counts.
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

/** Before anything is written. @throws PegboardError E_STATE */
function refuseNewer(database: Database, file: string): void {
  const version = versionOf(database)
  if (version > MIGRATIONS.length)
    throw new PegboardError(
      'E_STATE',
      `${file} was written by a newer version of Pegboard: it has schema version ${version}, and this one knows versions up to ${MIGRATIONS.length}.`,
      {
        hint: 'Update Pegboard, or set dirs.state to another folder.',
      },
    )
}

function migrate(database: Database): void {
  const version = versionOf(database)
  for (const [at, sql] of MIGRATIONS.entries()) {
    if (at < version) continue
    database.exec('BEGIN IMMEDIATE')
    // Another process may have been faster.
    if (versionOf(database) <= at) {
      database.exec(sql)
      database.exec(`PRAGMA user_version = ${at + 1}`)
    }
    database.exec('COMMIT')
  }
}

/** What went wrong, in words that fit after "because", and what to do. None names a path. */
const SAID = {
  full: ['the disk is full', 'Free space where dirs.state is; it goes on by itself then.'],
  locked: ['another process holds the state file', 'End whatever reads or copies it for long, then try again.'],
  crowded: ['too many files are open', 'Have the system allow more (ulimit -n); it goes on by itself then.'],
  'read-only': ['the state file may only be read', 'Look at the rights of the state folder (dirs.state).'],
  damaged: ['the state file is damaged', 'Start the server again: the file is put aside then, and kept.'],
} as const

function wordsOf(error: unknown): readonly [what: string, hint: string] {
  const trouble = troubleOf(error)
  return trouble === 'other'
    ? [messageOf(error), 'Look at the disk and at the rights of the state folder (dirs.state), then try again.']
    : SAID[trouble]
}

/** What may pass by itself can be tried again. */
const unusable = (file: string, error: unknown): PegboardError => {
  if (error instanceof PegboardError) return error
  const passes = ['full', 'locked', 'crowded'].includes(troubleOf(error))
  const [what, hint] = wordsOf(error)
  return new PegboardError(
    passes ? 'E_STATE_UNAVAILABLE' : 'E_STATE',
    `The state file ${file} cannot be used: ${what}.`,
    {
      hint: passes ? hint : `${hint} Or set dirs.state to another folder.`,
      cause: error,
    },
  )
}

const failed = (what: 'written' | 'read', error: unknown): PegboardError => {
  const [why, hint] = wordsOf(error)
  return new PegboardError('E_STATE_UNAVAILABLE', `What must survive a restart could not be ${what}: ${why}.`, {
    hint,
    cause: error,
  })
}

interface Row {
  readonly id: string
  readonly owner: string
  readonly value: string
  readonly revision: number
}

/** Some failures have done it already. */
function rollBack(database: Database): void {
  try {
    database.exec('ROLLBACK')
  } catch {}
}

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
  const stored = ({ id, owner, value, revision }: Row): Stored<unknown> => ({
    id,
    owner,
    revision: Number(revision),
    value: parsed(value),
  })
  const got = (kind: string, id: string): Stored<unknown> | undefined => {
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
      throw failed('read', error)
    }
  }
  // What is written in one turn is one commit: waiting for the disk is what writing costs.
  let waiting: Array<{ run(): void; fail(error: unknown): void; done(): void }> = []
  let lockedAt: number | undefined
  /** @param last whether there is no other time for it */
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
        rollBack(database)
        throw error
      }
    } catch (error) {
      if (!last && troubleOf(error) === 'locked') {
        lockedAt ??= performance.now()
        // Whoever writes lets go in a moment, and until then this process has other things to do.
        if (performance.now() - lockedAt < PATIENCE_MS) return void setTimeout(() => flush(), AGAIN_MS)
      }
      failure = failed('written', error)
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
  const tell = createTeller(log)
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
      return readable<T>(table, kind, fits, tell)
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
