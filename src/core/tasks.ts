/** The extension by which a 2026-era server answers a call with a task to be asked for later. */
export const TASKS = 'io.modelcontextprotocol/tasks'

export const TASK_METHODS = ['tasks/get', 'tasks/update', 'tasks/cancel'] as const

/** Whether a client takes a task for an answer. */
export function takesTasks({ extensions }: Readonly<Record<string, unknown>>): boolean {
  return typeof extensions === 'object' && extensions !== null && TASKS in extensions
}
