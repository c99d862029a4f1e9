import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** What tells a process from one that got its id later. */
export type Descendants = ReadonlyMap<number, string>

interface Row {
  readonly parent: number
  readonly start: string
}

/**
 * All that a process started and what those started, whatever group they are in: as long as it lives, the system knows.
 * One whose own parent has gone is nobody's any more. Empty on Windows, where `taskkill` finds them.
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

/** Signals those that are still there; answers whether any was. */
export function endDescendants(known: Descendants, signal: 'SIGTERM' | 'SIGKILL', platform: string): boolean {
  if (known.size === 0) return false
  const rows = table(platform)
  let any = false
  for (const [pid, start] of known) {
    if (rows.get(pid)?.start !== start) continue
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
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      // A program's name may hold anything, brackets and spaces too; the fields begin behind it.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (fields[0] !== 'Z') rows.set(Number(name), { parent: Number(fields[1]), start: String(fields[19]) })
    } catch (error) {
      if (!['ENOENT', 'ESRCH', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    }
  }
  return rows
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
