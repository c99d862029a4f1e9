import type { Clock } from '../core/clock.ts'
import { setNewest } from '../core/drop-oldest.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { isOver, RELATED, TASKS } from '../core/task-protocol.ts'

/** The task that a message of a 2025-11-25 server belongs to. */
export function relatedTask({ _meta }: Json): string | undefined {
  const related = asRecord(_meta)[RELATED]
  return isRecord(related) && typeof related['taskId'] === 'string' ? related['taskId'] : undefined
}

/** True if a 2025-11-25 server supports tasks for calls. */
export function runsTasks(capabilities: Json): boolean {
  const { tasks } = capabilities
  const requests = isRecord(tasks) && tasks['requests']
  const tools = isRecord(requests) && requests['tools']
  return isRecord(tools) && isRecord(tools['call'])
}

/** True if a server with these capabilities supports tasks. */
export function hasTasks(era: 'legacy' | 'modern', capabilities: Json): boolean {
  if (era === 'legacy') return runsTasks(capabilities)
  const { extensions } = capabilities
  return isRecord(extensions) && isRecord(extensions[TASKS])
}

/** True if a tool may run as a task. A 2026-era server decides for each call. */
export const runsAsTask = (
  era: 'legacy' | 'modern',
  capabilities: Json,
  { text }: { readonly text: string },
): boolean => hasTasks(era, capabilities) && (era === 'modern' || /"taskSupport":"(required|optional)"/.test(text))

/**
 * Calls a tool that a 2025-11-25 server offers only as a task, and waits for the result, so that clients see an
 * ordinary call. Cancelling the call cancels the task.
 * @param request sends a request for this call
 * @param quietly sends one that nobody waits for
 */
export async function callAsTask(
  params: Json,
  request: (method: string, params: Json) => Promise<Json>,
  quietly: (method: string, params: Json) => void,
): Promise<Json> {
  const created = await request('tools/call', { ...params, task: {} })
  const taskId = asRecord(created['task'])['taskId']
  // It answered at once.
  if (typeof taskId !== 'string') return created
  try {
    return removeTaskId(await request('tasks/result', { taskId }))
  } catch (error) {
    quietly('tasks/cancel', { taskId })
    throw error
  }
}

/** Removes the server's own task id from a result or notification, because clients know another one. */
export function removeTaskId(result: Json): Json {
  const fullMeta = result['_meta']
  if (!isRecord(fullMeta) || !(RELATED in fullMeta)) return result
  const { _meta, ...rest } = result
  const { [RELATED]: _task, ...meta } = fullMeta
  return Object.keys(meta).length > 0 ? { ...rest, _meta: meta } : rest
}

/** Assumed lifetime of a task without one; no task counts for longer than a day. */
const UNKNOWN_MS = 60 * 60_000
const LONGEST_MS = 24 * 60 * 60_000
const MAX = 1_000

/** Tasks known to run at a server, which must not be stopped meanwhile. */
export function createOpenTasks(clock: Clock) {
  const expiryById = new Map<string, number>()
  return {
    /** Records a task in the format of the extension. */
    record({ taskId, status, ttlMs }: Json): void {
      if (typeof taskId !== 'string') return
      if (isOver(status)) return void expiryById.delete(taskId)
      if (expiryById.has(taskId)) return
      const lifetimeMs = typeof ttlMs === 'number' ? Math.min(ttlMs, LONGEST_MS) : UNKNOWN_MS
      setNewest(expiryById, taskId, clock.now() + lifetimeMs, MAX)
    },
    /** True if any task may still run whose id begins with this. */
    mayRun(prefix = ''): boolean {
      const now = clock.now()
      for (const [id, end] of expiryById) if (end <= now) expiryById.delete(id)
      return [...expiryById.keys()].some((id) => id.startsWith(prefix))
    },
  }
}

export type OpenTasks = ReturnType<typeof createOpenTasks>
