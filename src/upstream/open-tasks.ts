import type { Clock } from '../core/clock.ts'
import { isOver } from '../core/task-protocol.ts'

/** Tasks known to run at a server, which must not be stopped meanwhile. */
export interface OpenTasks {
  /** A task in the format of the extension. */
  saw(task: Readonly<Record<string, unknown>>): void
  /** True if any task may still run whose id begins with this. */
  any(prefix?: string): boolean
}

/** Assumed lifetime of a task without one; no task counts for longer than a day. */
const UNKNOWN_MS = 60 * 60_000
const LONGEST_MS = 24 * 60 * 60_000
const MAX = 1_000

export function createOpenTasks(clock: Clock): OpenTasks {
  const until = new Map<string, number>()
  return {
    saw({ taskId, status, ttlMs }) {
      if (typeof taskId !== 'string') return
      if (isOver(status)) return void until.delete(taskId)
      if (until.has(taskId)) return
      const lives = typeof ttlMs === 'number' ? Math.min(ttlMs, LONGEST_MS) : UNKNOWN_MS
      if (until.size >= MAX) until.delete(until.keys().next().value as string)
      until.set(taskId, clock.now() + lives)
    },
    any(prefix = '') {
      const now = clock.now()
      for (const [id, end] of until) if (end <= now) until.delete(id)
      return [...until.keys()].some((id) => id.startsWith(prefix))
    },
  }
}
