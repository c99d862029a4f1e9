import type { Clock } from '../core/clock.ts'
import { setNewest } from '../core/drop-oldest.ts'
import { isOver } from '../core/task-protocol.ts'

/** Tasks known to run at a server, which must not be stopped meanwhile. */
export interface OpenTasks {
  /** A task in the format of the extension. */
  record(task: Readonly<Record<string, unknown>>): void
  /** True if any task may still run whose id begins with this. */
  mayRun(prefix?: string): boolean
}

/** Assumed lifetime of a task without one; no task counts for longer than a day. */
const UNKNOWN_MS = 60 * 60_000
const LONGEST_MS = 24 * 60 * 60_000
const MAX = 1_000

export function createOpenTasks(clock: Clock): OpenTasks {
  const expiryById = new Map<string, number>()
  return {
    record({ taskId, status, ttlMs }) {
      if (typeof taskId !== 'string') return
      if (isOver(status)) return void expiryById.delete(taskId)
      if (expiryById.has(taskId)) return
      const lifetimeMs = typeof ttlMs === 'number' ? Math.min(ttlMs, LONGEST_MS) : UNKNOWN_MS
      setNewest(expiryById, taskId, clock.now() + lifetimeMs, MAX)
    },
    mayRun(prefix = '') {
      const now = clock.now()
      for (const [id, end] of expiryById) if (end <= now) expiryById.delete(id)
      return [...expiryById.keys()].some((id) => id.startsWith(prefix))
    },
  }
}
