import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { isProcessAlive } from '../core/is-process-alive.ts'

export const temporaryName = (): string => `.pegboard-${randomBytes(6).toString('hex')}.tmp`
const TEMPORARY = /^\.pegboard-[0-9a-f]{12}\.tmp$/

/** Distinguishes records of this process from those of an earlier process with the same id. */
const RUN = randomBytes(4).toString('hex')
let folder: string | undefined
let count = 0

/**
 * Records a temporary file before it is created, so that the next process can remove it if this one is killed.
 * @returns a function that removes the record
 */
export function recordUnfinishedWrite(path: string): () => void {
  if (folder === undefined) return () => undefined
  const record = join(folder, `${process.pid}-${RUN}-${++count}`)
  try {
    writeFileSync(record, path, { mode: 0o600 })
  } catch {
    // The file is written without a record.
    return () => undefined
  }
  return () => rmSync(record, { force: true })
}

/**
 * Removes temporary files of killed processes, and starts recording those of this process.
 * @param dir folder of the records
 */
export function removeUnfinishedWrites(dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  folder = dir
  for (const name of readdirSync(dir)) {
    const [, pid, run] = /^(\d+)-([0-9a-f]{8})-\d+$/.exec(name) ?? []
    if (pid === undefined || run === RUN || (Number(pid) !== process.pid && isProcessAlive(Number(pid)))) continue
    const record = join(dir, name)
    const path = readFileSync(record, 'utf8')
    if (isAbsolute(path) && TEMPORARY.test(path.slice(path.lastIndexOf('/') + 1))) rmSync(path, { force: true })
    rmSync(record, { force: true })
  }
}
