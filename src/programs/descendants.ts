import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isFull } from '../core/full.ts'

/** What tells a process from one that got its id later. */
export type Descendants = ReadonlyMap<number, string>

interface Row {
  readonly parent: number
  readonly start: string
}

/**
 * All that a process started and what those started, whatever group they are in: as long as it lives, the system knows.
 * One whose own parent has gone is nobody's any more, and is known by its mark alone. Empty on Windows, where `taskkill` finds them.
 */
export function descendantsOf(pid: number, platform: string): Descendants {
  if (platform === 'win32') return new Map()
  const rows = table(platform)
  const found = new Map<number, string>()
  const below = new Set([pid])
  for (let grew = true; grew; ) {
    grew = false
    for (const [id, { parent, start }] of rows) {
      if (below.has(id) || !below.has(parent)) continue
      below.add(id)
      found.set(id, start)
      grew = true
    }
  }
  return found
}

/** In the environment of a program: whatever comes of it has it, too, unless it takes it off. */
export const MARK = 'PEGBOARD_CHILD'

/** All that have the mark, whoever their parents are now. Only Linux says so. */
export function markedWith(mark: string, platform: string): Descendants {
  const look = lookFor(mark, platform)
  for (;;) {
    const { done, value } = look.next()
    if (done) return value
  }
}

/** The same, a few processes in each turn of the loop: to look at hundreds takes as long as many calls. */
export async function soonMarkedWith(mark: string, platform: string): Promise<Descendants> {
  const look = lookFor(mark, platform)
  for (;;) {
    const { done, value } = look.next()
    if (done) return value
    await nextTurn()
  }
}

const AT_ONCE = 16

function* lookFor(mark: string, platform: string): Generator<undefined, Descendants, undefined> {
  const found = new Map<number, string>()
  if (platform !== 'linux') return found
  const since = Number(rowOf(process.pid)?.start)
  for (const [at, pid] of processes().entries()) {
    if (at % AT_ONCE === AT_ONCE - 1) yield
    const row = rowOf(pid)
    // What is older than we are comes of nobody that we started.
    if (row && Number(row.start) >= since && says(pid, `${MARK}=${mark}`)) found.set(pid, row.start)
  }
  return found
}

function says(pid: number, variable: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(variable)
  } catch (error) {
    // Gone since, or somebody else's.
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
    if (isFull(error)) return false
    throw error
  }
}

/** Signals those that are still there; answers whether any was. */
export function endDescendants(known: Descendants, signal: 'SIGTERM' | 'SIGKILL', platform: string): boolean {
  if (known.size === 0) return false
  const rows = platform === 'linux' ? undefined : fromPs()
  let any = false
  for (const [pid, start] of known) {
    if ((rows ? rows.get(pid) : rowOf(pid))?.start !== start) continue
    any = true
    try {
      process.kill(pid, signal)
    } catch (error) {
      // Gone since, or somebody else's by a set-uid program.
      if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    }
  }
  return any
}

/** All processes. Those that nobody has reaped yet are left out. */
function table(platform: string): Map<number, Row> {
  return platform === 'linux' ? fromProc() : fromPs()
}

function fromProc(): Map<number, Row> {
  const rows = new Map<number, Row>()
  for (const pid of processes()) {
    const row = rowOf(pid)
    if (row) rows.set(pid, row)
  }
  return rows
}

/** Without a file to open nothing can be looked up, here and below; the group of whoever is to end is ended all the same. */
function processes(): number[] {
  try {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? Number(name) : []))
  } catch (error) {
    if (isFull(error)) return []
    throw error
  }
}

function rowOf(pid: number): Row | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // A program's name may hold anything, brackets and spaces too; the fields begin behind it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : { parent: Number(fields[1]), start: String(fields[19]) }
  } catch (error) {
    if (isFull(error) || ['ENOENT', 'ESRCH', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? ''))
      return undefined
    throw error
  }
}

function fromPs(): Map<number, Row> {
  const rows = new Map<number, Row>()
  let text = ''
  try {
    text = execFileSync('ps', ['-A', '-o', 'pid=', '-o', 'ppid=', '-o', 'lstart='], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 2_000,
    })
  } catch {
    // Without `ps` their group is ended all the same.
  }
  for (const line of text.split('\n')) {
    const [, pid, parent, start] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
    if (pid !== undefined) rows.set(Number(pid), { parent: Number(parent), start: String(start) })
  }
  return rows
}
