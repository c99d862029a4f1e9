import { isPegboardError, isShuttingDown, messageOf, PegboardError, shuttingDown } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { toModernServerRequest } from '../core/server-requests.ts'
import { noRelay } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import type { Table } from '../state/store.ts'
import type { SendTarget, StoredTask, TaskAnswer } from './background-task.ts'
import type { TasksOptions } from './background-tasks.ts'
import { textOf } from './channel-delivery.ts'
import { failureOf, type Outcome, outcomeOf } from './outcome.ts'
import { refreshCaller } from './stored-caller.ts'
import { withoutConnection } from './task-owner.ts'
import type { CallRequest } from './tool-calls.ts'

/** Pauses before a task is stored again; each is twice as long as the one before. */
const RETRY_MS = { first: 500, most: 15_000 } as const
/** Maximum number of tasks of one owner. The oldest ended tasks are deleted, each time `CHECK_EVERY` tasks have ended. */
const MAX_TASKS = 1_000
const CHECK_EVERY = 100
/** Maximum size of the results of one principal in a profile; the oldest are deleted. */
const MAX_RESULT_BYTES = 64 * 1024 * 1024

export interface TaskRun {
  readonly owner: string
  readonly abort: AbortController
  /** Number of callers that wait for the task. If any waits, the owner gets no notice. */
  awaited: number
  /** Revision that was written last. If another process has written since, the result of this one is dropped. */
  revision: number
  writing: Promise<unknown>
  task: StoredTask
  /** True if the latest state is not in the store yet. */
  unwritten: boolean
  ended: Promise<void>
  cancelled: boolean
  readonly questions: Map<string, { readonly ask: unknown; resolve(answer: unknown): void }>
  questionCount: number
}

/** The tasks that run in this process, and their open questions. */
export type TaskRuns = ReturnType<typeof createTaskRuns>

/** @param onEnd called for each stored task that ended while no caller waited */
export function createTaskRuns(
  options: TasksOptions,
  table: () => Table<StoredTask>,
  onEnd: (owner: string, task: StoredTask) => void,
) {
  const { clock, log, settings, instance, alarms } = options
  const running = new Map<string, TaskRun>()
  let stopped = false
  let finished = 0

  function abort(taskRun: TaskRun): void {
    taskRun.cancelled = true
    taskRun.abort.abort(new PegboardError('E_CANCELLED', 'The task was cancelled.'))
  }

  /** Runs the task to its end; `ended` resolves then. Returns the error it failed with. */
  function run(taskRun: TaskRun, request: CallRequest): { failure?: unknown } {
    return track(
      taskRun,
      options.call({
        ...request,
        relay: noRelay,
        abort: taskRun.abort,
        onProgress(done, total, message) {
          const progress = { done, ...(total === undefined ? {} : { total }), ...(message ? { message } : {}) }
          taskRun.task = { ...taskRun.task, progress }
          taskRun.unwritten = true
        },
      }),
    )
  }

  /** As `run`, for a call that runs already. */
  function track(taskRun: TaskRun, work: Promise<ToolResult>): { failure?: unknown } {
    const ended: { failure?: unknown } = {}
    const failed = (error: unknown): [Outcome, TaskAnswer] => {
      ended.failure = error
      const failure = isPegboardError(error) ? error : new PegboardError('E_INTERNAL', messageOf(error))
      return [failureOf(failure), options.presentError(error)]
    }
    taskRun.ended = work
      .then((result): [Outcome, TaskAnswer] => [
        outcomeOf(result).outcome,
        { result: options.present(result, withoutConnection(taskRun.task.caller)) },
      ])
      // A result that cannot be presented is a failure too: the task ends in any case.
      .catch(failed)
      .then(([outcome, answer]) => finish(taskRun, outcome, answer))
    return ended
  }

  /** Asks the client a question of the task, and waits for the answer. */
  function ask(taskRun: TaskRun, method: string, params: unknown, signal?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const key = `${method.split('/', 1)[0]}-${++taskRun.questionCount}`
      const settle = (then: () => void): void => {
        taskRun.questions.delete(key)
        saveQuestions(taskRun)
        then()
      }
      signal?.addEventListener('abort', () => settle(() => reject(signal.reason)), { once: true })
      taskRun.questions.set(key, {
        ask: toModernServerRequest(method, params),
        resolve: (answer) => settle(() => resolve(answer)),
      })
      saveQuestions(taskRun)
    })
  }

  function saveQuestions(taskRun: TaskRun): void {
    if (!running.has(taskRun.task.id)) return
    const questions = Object.fromEntries([...taskRun.questions].map(([key, { ask }]) => [key, ask]))
    const { questions: _before, ...task } = taskRun.task
    taskRun.task = taskRun.questions.size === 0 ? task : { ...task, questions }
    write(taskRun, taskRun.task).catch((error: unknown) =>
      log.error('cannot store the questions of a task', { task: taskRun.task.id, error: messageOf(error) }),
    )
  }

  /** Writes in order, each over the one before. False if another process has written since. */
  function write(taskRun: TaskRun, task: StoredTask, expiresAt?: number): Promise<boolean> {
    const { id } = task
    taskRun.unwritten = false
    const written = taskRun.writing.then(async () => {
      const end = expiresAt === undefined ? {} : { expiresAt }
      const revision = await table().put({ id, owner: taskRun.owner, value: task, ...end }, taskRun.revision)
      taskRun.revision = revision ?? taskRun.revision
      return revision !== undefined
    })
    taskRun.writing = written.catch(() => undefined)
    return written
  }

  /**
   * True if the task is no longer stored. Running tasks are never deleted, so then the whole store was lost. The next
   * write stores the task again.
   */
  async function isLost(taskRun: TaskRun): Promise<boolean> {
    if ((await table().get(taskRun.task.id)) !== undefined) return false
    taskRun.revision = 0
    return true
  }

  async function finish(taskRun: TaskRun, outcome: Outcome, answer: TaskAnswer): Promise<void> {
    const { cancelled } = taskRun
    instance.end()
    // A call that waited for its turn is rejected, not aborted.
    const wasRejected = !outcome.success && outcome.code === 'E_SHUTTING_DOWN'
    const isInterrupted = wasRejected || isShuttingDown(taskRun.abort.signal.reason)
    if (isInterrupted && !cancelled && !outcome.success && taskRun.task.idempotent) return release(taskRun)
    const status = cancelled ? 'cancelled' : isInterrupted ? 'interrupted' : outcome.success ? 'completed' : 'failed'
    taskRun.task = { ...taskRun.task, input: undefined, status, finishedAt: clock.now(), outcome, answer }
    alarms.clear(taskRun.task.id)
    await storeResult(taskRun, RETRY_MS.first)
    await deleteOldResults(taskRun.task)
      .then(() => deleteOldTasks(taskRun.owner))
      .catch((error: unknown) => log.warn('cannot delete old tasks', { error: messageOf(error) }))
  }

  /** Stores the result of an ended task. Until this succeeds, the task can be read from memory. */
  async function storeResult(taskRun: TaskRun, retryMs: number): Promise<void> {
    const { owner, task } = taskRun
    const { id } = task
    try {
      const expiresAt = clock.now() + settings.resultTtlMs
      const isWritten =
        (await write(taskRun, task, expiresAt)) || ((await isLost(taskRun)) && (await write(taskRun, task, expiresAt)))
      running.delete(id)
      if (taskRun.cancelled) return
      if (!isWritten) {
        log.warn('another process has taken over a task of this process; the result of this process is dropped', {
          task: id,
        })
        return
      }
      const isSent = task.sendTo && !stopped && (await sendToChannel(task, task.sendTo))
      if (!isSent && taskRun.awaited === 0) onEnd(owner, task)
    } catch (error) {
      if (stopped) {
        running.delete(id)
        return log.error('cannot store the result of a task', { task: id, error: messageOf(error) })
      }
      log.warn('cannot store the result of a task; Pegboard tries again', { task: id, error: messageOf(error) })
      clock.after(retryMs, () => void storeResult(taskRun, Math.min(retryMs * 2, RETRY_MS.most)))
    }
  }

  /** True if the result was sent to the owner's channel. */
  async function sendToChannel(
    { id, caller, outcome }: StoredTask,
    { channel, maxChars }: SendTarget,
  ): Promise<boolean> {
    if (!outcome) return false
    try {
      await options.deliver(refreshCaller(caller, options.lookUpRights), channel, textOf(outcome, maxChars))
      return true
    } catch (error) {
      log.warn('cannot send the result of a task', { task: id, channel, error: messageOf(error) })
      return false
    }
  }

  /** Results stored by this process, oldest first, by principal and profile. */
  const storedResults = new Map<string, { readonly id: string; readonly bytes: number; readonly until: number }[]>()

  async function deleteOldResults({ id, caller, outcome, answer }: StoredTask): Promise<void> {
    const holder = JSON.stringify([caller.principal, caller.profile])
    const now = clock.now()
    const results = (storedResults.get(holder) ?? []).filter(({ until }) => until > now)
    results.push({ id, bytes: JSON.stringify([outcome, answer]).length, until: now + settings.resultTtlMs })
    storedResults.set(holder, results)
    let bytes = results.reduce((sum, one) => sum + one.bytes, 0)
    while (bytes > MAX_RESULT_BYTES && results.length > 1) {
      const oldest = results.shift()
      if (oldest === undefined) break
      bytes -= oldest.bytes
      await table().delete(oldest.id)
    }
  }

  async function deleteOldTasks(owner: string): Promise<void> {
    if (++finished % CHECK_EVERY !== 0 || (await table().count(owner)) <= MAX_TASKS) return
    const endedTasks = (await table().list(owner))
      .filter(({ value }) => value.status !== 'running')
      .sort((a, b) => a.value.startedAt - b.value.startedAt)
    await Promise.all(
      endedTasks.slice(0, Math.max(0, endedTasks.length - MAX_TASKS)).map(({ id }) => table().delete(id)),
    )
  }

  /** Leaves the task to another process, or to the next start. */
  async function release(taskRun: TaskRun): Promise<void> {
    const { task } = taskRun
    running.delete(task.id)
    try {
      await write(taskRun, { ...task, instance: '' })
      await alarms.set(task.id, clock.now())
    } catch (error) {
      log.error('cannot hand over a task to another process', { task: task.id, error: messageOf(error) })
    }
  }

  return {
    get: (id: string): TaskRun | undefined => running.get(id),
    all: (): readonly TaskRun[] => [...running.values()],
    /** Adds a task of this process. `revision` is the stored one, 0 if it is not stored yet. */
    add(owner: string, task: StoredTask, how: Partial<Pick<TaskRun, 'abort' | 'awaited' | 'revision'>>): TaskRun {
      const { abort = new AbortController(), awaited = 0, revision = 0 } = how
      const taskRun: TaskRun = {
        owner,
        task,
        abort,
        awaited,
        ended: Promise.resolve(),
        revision,
        writing: Promise.resolve(),
        unwritten: false,
        cancelled: false,
        questions: new Map(),
        questionCount: 0,
      }
      running.set(task.id, taskRun)
      return taskRun
    },
    drop: (id: string): void => void running.delete(id),
    run,
    track,
    ask,
    /** Ignored if the task has another owner or does not run here. */
    reply(owner: string, id: string, answers: Json): void {
      const taskRun = running.get(id)
      if (taskRun?.owner !== owner) return
      for (const [key, answer] of Object.entries(answers)) taskRun.questions.get(key)?.resolve(answer)
    },
    write,
    isLost,
    abort,
    /** Ends running tasks and stores that. */
    async stop(): Promise<void> {
      stopped = true
      const unfinished = [...running.values()]
      for (const { abort } of unfinished) abort.abort(shuttingDown())
      await Promise.all(unfinished.map(({ ended }) => ended))
    },
  }
}
