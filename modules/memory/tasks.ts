import { randomBytes } from 'node:crypto'
import type { Kv } from 'pegboard'
import { tooLarge } from '../_errors.ts'

export const STATUSES = ['pending', 'in_progress', 'done', 'cancelled'] as const
export type Status = (typeof STATUSES)[number]

export interface Task {
  readonly task_id: string
  readonly subject: string
  readonly description: string
  readonly status: Status
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** Key of a principal's data in the profile's store. */
const keyOf = (kind: 'tasks' | 'goal', principal: string): string => `${kind} ${principal.slice(0, 400)}`
const tasksIn = (value: unknown): readonly Task[] => (value ?? []) as readonly Task[]
const MAX_TASKS = 200
/** Per principal, because the store is shared by all. */
const MAX_BYTES = 256 * 1024

const isOver = ({ status }: Task): boolean => status === 'done' || status === 'cancelled'

export const tasksOf = async (kv: Kv, principal: string): Promise<readonly Task[]> =>
  tasksIn(await kv.get(keyOf('tasks', principal)))

export const goalOf = async (kv: Kv, principal: string): Promise<string | null> =>
  ((await kv.get(keyOf('goal', principal))) as string | null) ?? null

export async function setGoal(kv: Kv, principal: string, goal: string): Promise<void> {
  if (goal === '') await kv.del(keyOf('goal', principal))
  else await kv.set(keyOf('goal', principal), goal)
}

/** Adds a task; of two hundred, the oldest finished one is removed. @throws ToolError if none is finished */
export const addTask = (kv: Kv, principal: string, subject: string, description: string, now: number): Promise<Task> =>
  kv.update(keyOf('tasks', principal), (value) => {
    const tasks = tasksIn(value)
    const dropped = tasks.length < MAX_TASKS ? undefined : tasks.find(isOver)
    if (tasks.length >= MAX_TASKS && !dropped)
      throw tooLarge(`There are ${MAX_TASKS} open tasks, the maximum.`, 'Set some to done or cancelled.')
    const task: Task = { task_id: randomBytes(4).toString('hex'), subject, description, status: 'pending', at: now }
    return { value: checkSize([...tasks.filter((other) => other !== dropped), task]), result: task }
  })

/** @throws ToolError if they are too long together */
function checkSize(tasks: readonly Task[]): readonly Task[] {
  const bytes = Buffer.byteLength(JSON.stringify(tasks))
  if (bytes <= MAX_BYTES) return tasks
  throw tooLarge(`The tasks would have ${bytes} bytes; the limit is ${MAX_BYTES}.`, 'Shorten other descriptions.')
}

/** `undefined` if there is no such task. */
export const updateTask = (
  kv: Kv,
  principal: string,
  id: string,
  change: { readonly status?: Status | undefined; readonly description?: string | undefined },
): Promise<Task | undefined> =>
  kv.update(keyOf('tasks', principal), (value) => {
    const tasks = tasksIn(value)
    const index = tasks.findIndex(({ task_id }) => task_id === id)
    const before = tasks[index]
    if (!before) return { result: undefined }
    const task: Task = {
      ...before,
      ...(change.status === undefined ? {} : { status: change.status }),
      ...(change.description === undefined ? {} : { description: change.description }),
    }
    return {
      value: change.description === undefined ? tasks.with(index, task) : checkSize(tasks.with(index, task)),
      result: task,
    }
  })

export const toShownTask = ({ task_id, subject, description, status }: Task) => ({
  task_id,
  subject,
  description,
  status,
})
export const isOpen = (task: Task): boolean => !isOver(task)
