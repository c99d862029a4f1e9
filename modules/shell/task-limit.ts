import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A control group in which only so many processes and threads fit. */
export interface TaskLimit {
  /** Whoever writes `0` to this file is inside, with all that it starts. */
  readonly join: string
  /** Whether somebody inside wanted one more than fit. */
  isReached(): boolean
  /** Once all inside have ended. */
  remove(): void
}

const PREFIX = 'pegboard-shell-'
const ROOT = '/sys/fs/cgroup'

/**
 * For root alone, whom `ulimit -u` does not limit. Everybody else has that, and may not make groups.
 * Undefined where there are no control groups, or none can be made.
 */
export function createTaskLimit(max: number, platform: string): TaskLimit | undefined {
  if (platform !== 'linux' || process.getuid?.() !== 0) return undefined
  return unlessErrno(() => {
    const parent = ownGroup()
    removeAbandoned(parent)
    const folder = join(parent, `${PREFIX}${process.pid}-${randomBytes(8).toString('hex')}`)
    mkdirSync(folder)
    try {
      writeFileSync(join(folder, 'pids.max'), String(max))
    } catch (error) {
      rmdirSync(folder)
      throw error
    }
    return {
      join: join(folder, 'cgroup.procs'),
      isReached: () =>
        unlessErrno(() => /^max [1-9]/m.test(readFileSync(join(folder, 'pids.events'), 'utf8'))) ?? false,
      remove: () => unlessErrno(() => rmdirSync(folder)),
    }
  })
}

/** The group of this process that counts processes: of the first version of control groups, or of the second. */
function ownGroup(): string {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').split('\n')
  const first = lines.find((line) => line.split(':')[1]?.split(',').includes('pids'))
  if (first) return join(ROOT, 'pids', first.split(':').slice(2).join(':'))
  const second = lines.find((line) => line.startsWith('0::')) ?? '0::/'
  const group = join(ROOT, second.slice(3))
  writeFileSync(join(group, 'cgroup.subtree_control'), '+pids')
  return group
}

/** Those of servers that were killed, and of commands whose last process took longer to end. A group with somebody inside cannot be removed. */
function removeAbandoned(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('-')[0] : undefined
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) unlessErrno(() => rmdirSync(join(parent, name)))
  }
}

const isErrno = (error: unknown): boolean => typeof (error as NodeJS.ErrnoException).code === 'string'

function unlessErrno<T>(act: () => T): T | undefined {
  try {
    return act()
  } catch (error) {
    if (isErrno(error)) return undefined
    throw error
  }
}
