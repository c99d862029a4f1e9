import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isFull } from './room.ts'

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
  if (platform === 'linux' && existsSync('/proc/thread-self/children')) return fromChildren(pid)
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

/** Not every kernel tells them; where it does, nobody else's processes are looked at, of which there may be hundreds. */
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
  // Each thread has those that it started.
  const threads = unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? []
  return threads.flatMap((thread) => {
    const ids = unlessGone(() => readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1')) ?? ''
    return ids.split(' ').filter(Boolean).map(Number)
  })
}

/** In the environment of a program: whatever comes of it has it, too, unless it takes it off. */
export const MARK = 'PEGBOARD_CHILD'

/** What has a mark, by it, whoever its parents are now. */
export type Marked = ReadonlyMap<string, Descendants>

/** All that have one. Only Linux says so. */
export function marked(platform: string): Marked {
  const look = lookForMarks(platform)
  for (;;) {
    const { done, value } = look.next()
    if (done) return value
  }
}

/** The same, a few processes in each turn of the loop: to look at hundreds takes as long as many calls. */
export async function soonMarked(platform: string): Promise<Marked> {
  const look = lookForMarks(platform)
  for (;;) {
    const { done, value } = look.next()
    if (done) return value
    await nextTurn()
  }
}

const AT_ONCE = 16
/** An environment may be longer, which few are. */
const ROOM = 32 * 1024

function* lookForMarks(platform: string): Generator<undefined, Marked, undefined> {
  const found = new Map<string, Map<number, string>>()
  if (platform !== 'linux') return found
  const room = Buffer.allocUnsafe(ROOM)
  try {
    for (const [at, pid] of processes().entries()) {
      if (at % AT_ONCE === AT_ONCE - 1) yield
      const mark = markOf(pid, room)
      const row = mark === undefined ? undefined : rowOf(pid)
      // Once more, for its id may be somebody else's by now.
      if (mark === undefined || !row || markOf(pid, room) !== mark) continue
      found.set(mark, (found.get(mark) ?? new Map<number, string>()).set(pid, row.start))
    }
  } catch (error) {
    // Without a file to open nothing can be looked up; the group is ended all the same.
    if (!isFull(error)) throw error
  }
  return found
}

function markOf(pid: number, room: Buffer): string | undefined {
  const words = unlessGone(() => environmentOf(pid, room))
  return words?.includes(MARK) ? MARKED.exec(words)?.[1] : undefined
}

const MARKED = new RegExp(`(?:^|\0)${MARK}=([^\0]*)`)

/** With memory of its own, each of hundreds would have V8 look through all of the heap a moment later. */
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

const processes = (): number[] => readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? Number(name) : []))

function rowOf(pid: number): Row | undefined {
  const stat = unlessGone(() => readFileSync(`/proc/${pid}/stat`, 'latin1'))
  // A program's name may hold anything, brackets and spaces too; the fields begin behind it.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields === undefined || fields[0] === 'Z'
    ? undefined
    : { parent: Number(fields[1]), start: String(fields[19]) }
}

/** What is read of a process that may be gone since, or somebody else's. */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
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
