import { isRecord } from '../core/record.ts'
import { RELATED, TASKS } from '../core/tasks.ts'

type Json = Readonly<Record<string, unknown>>

/** The task a message of a 2025-11-25 server is of. */
export function relatedTask({ _meta }: Json): string | undefined {
  const related = isRecord(_meta) ? _meta[RELATED] : undefined
  return isRecord(related) && typeof related['taskId'] === 'string' ? related['taskId'] : undefined
}

/** Whether a 2025-11-25 server runs calls as tasks. */
export function runsTasks(capabilities: Json): boolean {
  const { tasks } = capabilities
  const requests = isRecord(tasks) && tasks['requests']
  const tools = isRecord(requests) && requests['tools']
  return isRecord(tools) && isRecord(tools['call'])
}

/** Whether calls can be tasks at a server that declared this. */
export function hasTasks(era: 'legacy' | 'modern', capabilities: Json): boolean {
  if (era === 'legacy') return runsTasks(capabilities)
  const { extensions } = capabilities
  return isRecord(extensions) && isRecord(extensions[TASKS])
}

/** Whether a tool may run as one there. A 2026-era server decides that call by call. */
export const runsAsTask = (
  era: 'legacy' | 'modern',
  capabilities: Json,
  { text }: { readonly text: string },
): boolean => hasTasks(era, capabilities) && (era === 'modern' || /"taskSupport":"(required|optional)"/.test(text))

/**
 * Makes a call that a 2025-11-25 server takes only as a task, and waits for its result: for everybody else it is a call
 * like any other. A call that is given up cancels its task.
 * @param request sends a request for this call
 * @param quietly sends one that nobody waits for
 */
export async function callAsTask(
  params: Json,
  request: (method: string, params: Json) => Promise<Json>,
  quietly: (method: string, params: Json) => void,
): Promise<Json> {
  const created = await request('tools/call', { ...params, task: {} })
  const taskId = isRecord(created['task']) ? created['task']['taskId'] : undefined
  // It may have been quick enough to answer at once.
  if (typeof taskId !== 'string') return created
  try {
    return unrelated(await request('tasks/result', { taskId }))
  } catch (error) {
    quietly('tasks/cancel', { taskId })
    throw error
  }
}

/** The caller knows of no task. */
function unrelated(result: Json): Json {
  const { _meta, ...rest } = result
  if (!isRecord(_meta) || !(RELATED in _meta)) return result
  const { [RELATED]: _task, ...meta } = _meta
  return Object.keys(meta).length > 0 ? { ...rest, _meta: meta } : rest
}
