import type { Json } from './is-record.ts'
import { omitUndefined } from './omit-undefined.ts'

/** The extension with which a 2026-era server answers a call with a task. */
export const TASKS = 'io.modelcontextprotocol/tasks'

export const TASK_METHODS = ['tasks/get', 'tasks/update', 'tasks/cancel'] as const

/** `_meta` key that links a message of the 2025-11-25 revision to its task. */
export const RELATED = 'io.modelcontextprotocol/related-task'

/** True if a client accepts a task as an answer. */
export function acceptsTasks({ extensions }: Json): boolean {
  return typeof extensions === 'object' && extensions !== null && TASKS in extensions
}

export const isOver = (status: unknown): boolean =>
  status === 'completed' || status === 'failed' || status === 'cancelled'

/** Converts a task of the 2025-11-25 revision to the extension's format. */
export function toModernTask({
  taskId,
  status,
  statusMessage,
  createdAt,
  lastUpdatedAt,
  ttl,
  pollInterval,
}: Json): Json {
  const ttlMs = typeof ttl === 'number' ? ttl : null
  return omitUndefined({ taskId, status, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs: pollInterval })
}

/** Converts a task of the extension to the 2025-11-25 format, without its result, which has its own request. */
export function toLegacyTask({ taskId, status, statusMessage, createdAt, lastUpdatedAt, ...rest }: Json): Json {
  const { ttlMs, pollIntervalMs: pollInterval } = rest
  const ttl = typeof ttlMs === 'number' ? ttlMs : null
  return omitUndefined({
    taskId,
    status,
    statusMessage,
    createdAt,
    lastUpdatedAt: lastUpdatedAt ?? createdAt,
    ttl,
    pollInterval,
  })
}
