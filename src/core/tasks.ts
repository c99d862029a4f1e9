type Json = Readonly<Record<string, unknown>>

/** The extension by which a 2026-era server answers a call with a task to be asked for later. */
export const TASKS = 'io.modelcontextprotocol/tasks'

/** Requests of the extension. */
export const TASK_METHODS = ['tasks/get', 'tasks/update', 'tasks/cancel'] as const

/** What says of a message of the 2025-11-25 revision which task it is of. */
export const RELATED = 'io.modelcontextprotocol/related-task'

/** Whether a client takes a task for an answer. */
export function takesTasks({ extensions }: Json): boolean {
  return typeof extensions === 'object' && extensions !== null && TASKS in extensions
}

export const isOver = (status: unknown): boolean =>
  status === 'completed' || status === 'failed' || status === 'cancelled'

/** A task of the 2025-11-25 revision as the extension says it. */
export function newerTask({ taskId, status, statusMessage, createdAt, lastUpdatedAt, ttl, pollInterval }: Json): Json {
  return {
    taskId,
    status,
    ...(statusMessage === undefined ? {} : { statusMessage }),
    createdAt,
    lastUpdatedAt,
    ttlMs: typeof ttl === 'number' ? ttl : null,
    ...(pollInterval === undefined ? {} : { pollIntervalMs: pollInterval }),
  }
}

/** A task of the extension as the 2025-11-25 revision says it: without its result, which has a request of its own. */
export function olderTask({ taskId, status, statusMessage, createdAt, lastUpdatedAt, ...rest }: Json): Json {
  const { ttlMs, pollIntervalMs } = rest
  return {
    taskId,
    status,
    ...(statusMessage === undefined ? {} : { statusMessage }),
    createdAt,
    lastUpdatedAt: lastUpdatedAt ?? createdAt,
    ttl: typeof ttlMs === 'number' ? ttlMs : null,
    ...(pollIntervalMs === undefined ? {} : { pollInterval: pollIntervalMs }),
  }
}
