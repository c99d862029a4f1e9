import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { PegboardError } from '../core/errors.ts'
import { openDatabase, troubleOf } from './driver.ts'

/**
 * Holds a folder for this process alone, by a write lock on a SQLite file in it: the system gives that back when the process ends,
 * however it ends. Answers how to let go.
 * @throws PegboardError E_STATE naming the process that has it, or where there is no SQLite
 */
export function holdAlone(file: string, pid: number): () => void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const database = openDatabase(file)
  try {
    // In this mode others can read who has it.
    database.exec('PRAGMA journal_mode = WAL')
    database.exec('CREATE TABLE IF NOT EXISTS holder (pid INTEGER NOT NULL) STRICT')
    database.exec(`BEGIN IMMEDIATE; DELETE FROM holder; INSERT INTO holder VALUES (${pid}); COMMIT`)
    // Of two that came as far as this one gets the lock, and the other hears that it has not.
    database.exec('BEGIN IMMEDIATE')
  } catch (error) {
    const holder = troubleOf(error) === 'locked' ? holderIn(database) : undefined
    database.close()
    if (troubleOf(error) !== 'locked') throw error
    throw new PegboardError(
      'E_STATE',
      `The state folder ${dirname(file)} is held by process ${holder ?? '(unknown)'}.`,
      {
        hint: 'End that one, set dirs.state to another folder, or state.exclusive to false: several may share a folder.',
      },
    )
  }
  return () => database.close()
}

function holderIn(database: ReturnType<typeof openDatabase>): number | undefined {
  try {
    return Number((database.prepare('SELECT pid FROM holder').get() as { pid: number } | undefined)?.pid)
  } catch {
    // It is being made at this moment.
    return undefined
  }
}
