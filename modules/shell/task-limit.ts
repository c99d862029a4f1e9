import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A control group with a maximum number of processes and threads. */
export interface TaskLimit {
  /** Writing `0` to this file moves the writer and its future children into the group. */
  readonly joinFile: string
  /** True if the limit was hit. */
  isReached(): boolean
  /** After all processes inside have ended. */
  remove(): void
}

const PREFIX = 'pegboard-shell-'
const ROOT = '/sys/fs/cgroup'

/**
 * For root only, which `ulimit -u` does not limit; other users may not create groups. Undefined if control groups are
 * unavailable.
 */
export function createTaskLimit(max: number, platform: string): TaskLimit | undefined {
  if (platform !== 'linux' || process.getuid?.() !== 0) return undefined
  return ignoreSystemErrors(() => {
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
      joinFile: join(folder, 'cgroup.procs'),
      isReached: () =>
        ignoreSystemErrors(() => /^max [1-9]/m.test(readFileSync(join(folder, 'pids.events'), 'utf8'))) ?? false,
      remove: () => ignoreSystemErrors(() => rmdirSync(folder)),
    }
  })
}

/** The process's own pids control group, version 1 or 2. */
function ownGroup(): string {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').split('\n')
  const first = lines.find((line) => line.split(':')[1]?.split(',').includes('pids'))
  if (first) return join(ROOT, 'pids', first.split(':').slice(2).join(':'))
  const second = lines.find((line) => line.startsWith('0::')) ?? '0::/'
  const group = join(ROOT, second.slice(3))
  writeFileSync(join(group, 'cgroup.subtree_control'), '+pids')
  return group
}

/** Removes groups left by killed servers and slow processes. A group with processes cannot be removed. */
function removeAbandoned(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('-')[0] : undefined
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) ignoreSystemErrors(() => rmdirSync(join(parent, name)))
  }
}

const isSystemError = (error: unknown): boolean => typeof (error as NodeJS.ErrnoException).code === 'string'

function ignoreSystemErrors<T>(act: () => T): T | undefined {
  try {
    return act()
  } catch (error) {
    if (isSystemError(error)) return undefined
    throw error
  }
}
