import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { PegboardError } from '../core/errors.ts'
import { classifySqliteError, openDatabase } from './sqlite-driver.ts'

/**
 * Locks a folder for this process with a write lock on a SQLite file in it. The operating system releases the lock
 * when the process ends, even if it is killed.
 * @returns a function that releases the lock
 * @throws PegboardError E_STATE naming the process that holds the lock, or when there is no SQLite
 */
export function acquireProcessLock(file: string, pid: number): () => void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const database = openDatabase(file)
  try {
    // In WAL mode other processes can read which process holds the lock.
    database.exec('PRAGMA journal_mode = WAL')
    database.exec('CREATE TABLE IF NOT EXISTS holder (pid INTEGER NOT NULL) STRICT')
    database.exec(`BEGIN IMMEDIATE; DELETE FROM holder; INSERT INTO holder VALUES (${pid}); COMMIT`)
    // If two processes get this far, one gets the lock and the other gets an error.
    database.exec('BEGIN IMMEDIATE')
  } catch (error) {
    const holder = classifySqliteError(error) === 'locked' ? holderIn(database) : undefined
    database.close()
    if (classifySqliteError(error) !== 'locked') throw error
    throw new PegboardError(
      'E_STATE',
      `The state folder ${dirname(file)} is held by process ${holder ?? '(unknown)'}.`,
      {
        hint: 'Stop that process, set dirs.state to another folder, or set state.exclusive to false to share the folder.',
      },
    )
  }
  return () => database.close()
}

function holderIn(database: ReturnType<typeof openDatabase>): number | undefined {
  try {
    return Number((database.prepare('SELECT pid FROM holder').get() as { pid: number } | undefined)?.pid)
  } catch {
    // Another process is creating the file at this moment.
    return undefined
  }
}
