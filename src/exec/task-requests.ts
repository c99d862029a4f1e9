import type { Caller } from '../core/caller.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import type { Relay } from '../core/tool.ts'
import type { Task } from './background-task.ts'
import type { Tasks } from './background-tasks.ts'
import { sessionOwner } from './task-owner.ts'

/** Name of this Pegboard among the servers that can own tasks. */
export const OWN = 'pegboard'

/** Poll interval for clients, in milliseconds. */
const POLL_MS = 1_000

/** A task in the format of the tasks extension. */
export function toWireTask(task: Task, ttlMs: number): Json {
  const { id, startedAt, finishedAt, progress, questions, answer } = task
  const status = statusOf(task)
  return {
    taskId: id,
    status,
    createdAt: new Date(startedAt).toISOString(),
    lastUpdatedAt: new Date(finishedAt ?? startedAt).toISOString(),
    ttlMs,
    pollIntervalMs: POLL_MS,
    ...(progress?.message === undefined || finishedAt !== undefined ? {} : { statusMessage: progress.message }),
    ...(status === 'input_required' ? { inputRequests: questions } : {}),
    ...(status === 'completed' && answer && 'result' in answer ? { result: answer.result } : {}),
    ...(status === 'failed' ? { error: errorOf(task) } : {}),
  }
}

function statusOf({ status, questions, answer }: Task): string {
  if (status === 'running') return questions ? 'input_required' : 'working'
  if (status === 'cancelled') return 'cancelled'
  // A tool that fails completes its task, with a result that has `isError`.
  return answer && 'result' in answer && status !== 'interrupted' ? 'completed' : 'failed'
}

function errorOf({ answer, outcome }: Task): Json {
  if (answer && 'error' in answer) return answer.error
  return { code: -32603, message: outcome?.success === false ? outcome.error : 'The task was interrupted.' }
}

/** Answers requests of the tasks extension about Pegboard's own tasks. */
export const taskRequests =
  (tasks: Tasks, ttlMs: number, caller: Pick<Caller, 'principal' | 'profile' | 'session'>) =>
  async (method: string, params: Json, { inputResponses }: Pick<Relay, 'inputResponses'>) => {
    const owner = sessionOwner(caller)
    const task = await tasks.get(owner, String(params['taskId']))
    if (!task) throw new ProtocolFailure(-32602, 'There is no such task')
    if (method === 'tasks/get') return toWireTask(task, ttlMs)
    if (method === 'tasks/cancel') {
      await tasks.cancel(owner, task.id)
      return {}
    }
    const answers = params['inputResponses'] ?? inputResponses
    if (isRecord(answers)) await tasks.reply(owner, task.id, answers)
    return {}
  }

/** True if this can be the id of one of Pegboard's tasks. Earlier versions created shorter ids. */
export const isOwnTask = (name: unknown): name is string =>
  typeof name === 'string' && /^(?:[0-9a-z]{25}|[0-9a-f]{12})$/.test(name)
