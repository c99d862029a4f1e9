import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isResourceExhausted } from '../core/error-codes.ts'

/** Start times by process id; they tell a process from a later one with the same id. */
export type Descendants = ReadonlyMap<number, string>

interface Row {
  readonly parent: number
  readonly start: string
}

/**
 * All descendants of a process, whatever their process group. A descendant whose parent has ended is no longer linked
 * to its ancestors and can only be found by its mark. Empty on Windows, where `taskkill` finds them.
 */
export function descendantsOf(pid: number, platform: string): Descendants {
  if (platform === 'win32') return new Map()
  if (platform === 'linux' && existsSync('/proc/thread-self/children')) return fromChildren(pid)
  const rows = platform === 'linux' ? fromProc() : fromPs()
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

/** Not every kernel lists children. Where it does, no other process needs to be read. */
function fromChildren(pid: number): Descendants {
  const found = new Map<number, string>()
  const open = [pid]
  for (let parent = open.pop(); parent !== undefined; parent = open.pop())
    for (const child of childrenOf(parent)) {
      const row = found.has(child) ? undefined : rowOf(child)
      if (!row) continue
      found.set(child, row.start)
      open.push(child)
    }
  return found
}

function childrenOf(pid: number): number[] {
  // Each thread lists the children that it started.
  const threads = unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? []
  return threads.flatMap((thread) => {
    const ids = unlessGone(() => readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1')) ?? ''
    return ids.split(' ').filter(Boolean).map(Number)
  })
}

/** Environment variable that child processes inherit and that identifies them. */
export const MARK = 'PEGBOARD_CHILD'

/** Processes by mark, whoever their parents are now. */
export type ProcessesByMark = ReadonlyMap<string, Descendants>

/** All processes with a mark. Linux only. */
export function findMarked(platform: string): ProcessesByMark {
  const look = lookForMarks(platform)
  for (;;) {
    const { done, value } = look.next()
    if (done) return value
  }
}

/** The same, a few processes per turn of the event loop, because reading hundreds takes as long as many calls. */
export async function findMarkedInTurns(platform: string): Promise<ProcessesByMark> {
  const look = lookForMarks(platform)
  for (;;) {
    const { done, value } = look.next()
    if (done) return value
    await nextTurn()
  }
}

const AT_ONCE = 16
/** Few environments are longer. */
const ROOM = 32 * 1024

function* lookForMarks(platform: string): Generator<undefined, ProcessesByMark, undefined> {
  const found = new Map<string, Map<number, string>>()
  if (platform !== 'linux') return found
  const room = Buffer.allocUnsafe(ROOM)
  for (const [at, pid] of processes().entries()) {
    if (at % AT_ONCE === AT_ONCE - 1) yield
    const mark = markOf(pid, room)
    const row = mark === undefined ? undefined : rowOf(pid)
    // Checked again, because the process id may have been reused.
    if (mark === undefined || !row || markOf(pid, room) !== mark) continue
    found.set(mark, (found.get(mark) ?? new Map<number, string>()).set(pid, row.start))
  }
  return found
}

function markOf(pid: number, room: Buffer): string | undefined {
  const words = unlessGone(() => environmentOf(pid, room))
  return words?.includes(MARK) ? MARKED.exec(words)?.[1] : undefined
}

const MARKED = new RegExp(`(?:^|\0)${MARK}=([^\0]*)`)

/** One shared buffer: a new one for each of hundreds would trigger garbage collection. */
function environmentOf(pid: number, room: Buffer): string {
  const file = openSync(`/proc/${pid}/environ`, 'r')
  try {
    const bytes = readSync(file, room)
    if (bytes < room.length) return room.toString('latin1', 0, bytes)
  } finally {
    closeSync(file)
  }
  return readFileSync(`/proc/${pid}/environ`, 'latin1')
}

/** Signals the processes that still exist. @returns whether there was any */
export function endDescendants(descendants: Descendants, signal: 'SIGTERM' | 'SIGKILL', platform: string): boolean {
  if (descendants.size === 0) return false
  const rows = platform === 'linux' ? undefined : fromPs()
  let any = false
  for (const [pid, start] of descendants) {
    if ((rows ? rows.get(pid) : rowOf(pid))?.start !== start) continue
    any = true
    try {
      process.kill(pid, signal)
    } catch (error) {
      // Ended since, or running as another user through a set-uid program.
      if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    }
  }
  return any
}

/** All processes except zombies. */
function fromProc(): Map<number, Row> {
  const rows = new Map<number, Row>()
  for (const pid of processes()) {
    const row = rowOf(pid)
    if (row) rows.set(pid, row)
  }
  return rows
}

const processes = (): number[] =>
  (unlessGone(() => readdirSync('/proc')) ?? []).flatMap((name) => (/^\d+$/.test(name) ? Number(name) : []))

function rowOf(pid: number): Row | undefined {
  const stat = unlessGone(() => readFileSync(`/proc/${pid}/stat`, 'latin1'))
  // The command name may contain brackets and spaces; the fields start after it.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields === undefined || fields[0] === 'Z'
    ? undefined
    : { parent: Number(fields[1]), start: String(fields[19]) }
}

/**
 * Reads about a process that may have ended or belong to someone else. If no descriptor is free, nothing is read; the
 * process group is killed anyway.
 */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (isResourceExhausted(error)) return undefined
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

function fromPs(): Map<number, Row> {
  const { execFileSync } = process.getBuiltinModule('node:child_process')
  const rows = new Map<number, Row>()
  let text = ''
  try {
    text = execFileSync('ps', ['-A', '-o', 'pid=', '-o', 'ppid=', '-o', 'lstart='], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 2_000,
    })
  } catch {
    // Without `ps` the process group is killed anyway.
  }
  for (const line of text.split('\n')) {
    const [, pid, parent, start] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
    if (pid !== undefined) rows.set(Number(pid), { parent: Number(parent), start: String(start) })
  }
  return rows
}
