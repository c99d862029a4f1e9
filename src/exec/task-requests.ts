import type { Caller } from '../core/context.ts'
import { ProtocolFailure } from '../core/failure.ts'
import { isRecord } from '../core/record.ts'
import type { Relay } from '../core/tool.ts'
import { sessionOwner } from './owner.ts'
import type { Task } from './task.ts'
import type { Tasks } from './tasks.ts'

type Json = Readonly<Record<string, unknown>>

/** The owner of tasks that run here, among the servers behind us. */
export const OWN = 'pegboard'

/** How often a client may look. */
const POLL_MS = 1_000

/** A task of ours as the extension says it. */
export function wireTask(task: Task, ttlMs: number): Json {
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
  // A tool that failed has a result that says so.
  return answer && 'result' in answer && status !== 'interrupted' ? 'completed' : 'failed'
}

function errorOf({ answer, outcome }: Task): Json {
  if (answer && 'error' in answer) return answer.error
  return { code: -32603, message: outcome?.success === false ? outcome.error : 'The task was interrupted.' }
}

/** Answers requests about tasks of ours, in the words of the extension. */
export const taskRequests =
  (tasks: Tasks, ttlMs: number, caller: Pick<Caller, 'principal' | 'profile' | 'session'>) =>
  async (method: string, params: Json, { inputResponses }: Pick<Relay, 'inputResponses'>) => {
    const owner = sessionOwner(caller)
    const task = await tasks.get(owner, String(params['taskId']))
    if (!task) throw new ProtocolFailure(-32602, 'There is no such task')
    if (method === 'tasks/get') return wireTask(task, ttlMs)
    if (method === 'tasks/cancel') {
      await tasks.cancel(owner, task.id)
      return {}
    }
    const given = params['inputResponses'] ?? inputResponses
    if (isRecord(given)) await tasks.reply(owner, task.id, given)
    return {}
  }

/** Whether a name can be that of a task of ours: a handle, or the shorter ones that earlier versions gave. */
export const isOwnTask = (name: unknown): name is string =>
  typeof name === 'string' && /^(?:[0-9a-z]{25}|[0-9a-f]{12})$/.test(name)
