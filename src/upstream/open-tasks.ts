import type { Clock } from '../core/clock.ts'
import { isOver } from '../core/tasks.ts'

/** Tasks that run at a server, as far as we were told: it must not be stopped under them. */
export interface OpenTasks {
  /** A task as the extension says it. */
  saw(task: Readonly<Record<string, unknown>>): void
  /** Whether any may still run. */
  any(): boolean
  /** Whether this one may. */
  has(taskId: string): boolean
}

/** A task without a lifetime counts for so long, and none for longer than a day. */
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
    any() {
      const now = clock.now()
      for (const [id, end] of until) if (end <= now) until.delete(id)
      return until.size > 0
    },
    has: (taskId) => (until.get(taskId) ?? 0) > clock.now(),
  }
}
