import { isPegboardError, messageOf, PegboardError, shuttingDown } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { toModernServerRequest } from '../core/server-requests.ts'
import { noRelay } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import type { Table } from '../state/store.ts'
import type { SendTarget, StoredTask, TaskAnswer } from './background-task.ts'
import type { TasksOptions } from './background-tasks.ts'
import { textOf } from './channel-delivery.ts'
import { failureOf, type Outcome, outcomeOf } from './outcome.ts'
import { refreshCaller, restoreCaller } from './stored-caller.ts'
import type { CallRequest } from './tool-calls.ts'

/** Pauses before a task is stored again; each is twice as long as the one before. */
const RETRY_MS = { first: 500, most: 15_000 } as const
/** Maximum number of tasks of one owner; the oldest ended ones are deleted. Checked after each so many tasks. */
const MAX_KEPT = 1_000
const LOOK_EVERY = 100
/** Maximum size of the results of one principal in a profile; the oldest are deleted. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024

export interface TaskRun {
  readonly owner: string
  readonly abort: AbortController
  /** Number of callers that wait for its end; with any, no notice is sent. */
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
  asked: number
}

/** The tasks that run in this process, and their open questions. */
export interface TaskRuns {
  get(id: string): TaskRun | undefined
  all(): readonly TaskRun[]
  /** Adds a task of this process. `revision` is the stored one, 0 if it is not stored yet. */
  add(owner: string, task: StoredTask, how: Partial<Pick<TaskRun, 'abort' | 'awaited' | 'revision'>>): TaskRun
  drop(id: string): void
  /** Runs the task to its end; `ended` resolves then. Returns the error it failed with. */
  run(one: TaskRun, request: CallRequest): { failure?: unknown }
  /** As `run`, for a call that runs already. */
  follow(one: TaskRun, work: Promise<ToolResult>): { failure?: unknown }
  /** A question of the task. Waits for the answer. */
  ask(one: TaskRun, method: string, params: unknown, signal?: AbortSignal): Promise<unknown>
  /** Ignored if the task has another owner or does not run here. */
  reply(owner: string, id: string, answers: Json): void
  /** Writes in order, each over the one before. False if another process has written since. */
  write(one: TaskRun, task: StoredTask, expiresAt?: number): Promise<boolean>
  /** True if the task is no longer stored. The next write stores it again. */
  isLost(one: TaskRun): Promise<boolean>
  abort(one: TaskRun): void
  /** Ends running tasks and stores that. */
  stop(): Promise<void>
}

/** @param onEnd called for each stored task that ended while no caller waited */
export function createTaskRuns(
  options: TasksOptions,
  table: () => Table<StoredTask>,
  onEnd: (owner: string, task: StoredTask) => void,
): TaskRuns {
  const { clock, log, settings, instance, alarms } = options
  const running = new Map<string, TaskRun>()
  let stopped = false
  let finished = 0

  function abort(one: TaskRun): void {
    one.cancelled = true
    one.abort.abort(new PegboardError('E_CANCELLED', 'The task was cancelled.'))
  }

  function run(one: TaskRun, request: CallRequest): { failure?: unknown } {
    return follow(
      one,
      options.call({
        ...request,
        relay: noRelay,
        abort: one.abort,
        onProgress(done, total, message) {
          const progress = { done, ...(total === undefined ? {} : { total }), ...(message ? { message } : {}) }
          one.task = { ...one.task, progress }
          one.unwritten = true
        },
      }),
    )
  }

  function follow(one: TaskRun, work: Promise<ToolResult>): { failure?: unknown } {
    const ended: { failure?: unknown } = {}
    const failed = (error: unknown): [Outcome, TaskAnswer] => {
      ended.failure = error
      const failure = isPegboardError(error) ? error : new PegboardError('E_INTERNAL', messageOf(error))
      return [failureOf(failure), options.presentError(error)]
    }
    one.ended = work
      .then((result): [Outcome, TaskAnswer] => [
        outcomeOf(result).outcome,
        { result: options.present(result, restoreCaller(one.task.caller)) },
      ])
      // A result that cannot be presented is a failure too: the task ends in any case.
      .catch(failed)
      .then(([outcome, answer]) => finish(one, outcome, answer))
    return ended
  }

  function ask(one: TaskRun, method: string, params: unknown, signal?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const key = `${method.split('/', 1)[0]}-${++one.asked}`
      const settle = (then: () => void): void => {
        one.questions.delete(key)
        saveQuestions(one)
        then()
      }
      signal?.addEventListener('abort', () => settle(() => reject(signal.reason)), { once: true })
      one.questions.set(key, {
        ask: toModernServerRequest(method, params),
        resolve: (answer) => settle(() => resolve(answer)),
      })
      saveQuestions(one)
    })
  }

  function saveQuestions(one: TaskRun): void {
    if (!running.has(one.task.id)) return
    const questions = Object.fromEntries([...one.questions].map(([key, { ask }]) => [key, ask]))
    const { questions: _before, ...task } = one.task
    one.task = one.questions.size === 0 ? task : { ...task, questions }
    write(one, one.task).catch((error: unknown) =>
      log.error('cannot store the questions of a task', { task: one.task.id, error: messageOf(error) }),
    )
  }

  function write(one: TaskRun, task: StoredTask, expiresAt?: number): Promise<boolean> {
    const { id } = task
    one.unwritten = false
    const written = one.writing.then(async () => {
      const end = expiresAt === undefined ? {} : { expiresAt }
      const revision = await table().put({ id, owner: one.owner, value: task, ...end }, one.revision)
      one.revision = revision ?? one.revision
      return revision !== undefined
    })
    one.writing = written.catch(() => undefined)
    return written
  }

  /** Running tasks are never deleted. If one is gone, the whole store was lost, and the next write starts anew. */
  async function isLost(one: TaskRun): Promise<boolean> {
    if ((await table().get(one.task.id)) !== undefined) return false
    one.revision = 0
    return true
  }

  async function finish(one: TaskRun, outcome: Outcome, answer: TaskAnswer): Promise<void> {
    const { cancelled } = one
    instance.end()
    if (stopped && !cancelled && !outcome.success && one.task.idempotent) return release(one)
    const status = cancelled ? 'cancelled' : stopped ? 'interrupted' : outcome.success ? 'completed' : 'failed'
    one.task = { ...one.task, input: undefined, status, finishedAt: clock.now(), outcome, answer }
    alarms.clear(one.task.id)
    await keep(one, RETRY_MS.first)
    await makeRoomFor(one.task)
      .then(() => makeRoom(one.owner))
      .catch((error: unknown) => log.warn('cannot delete old tasks', { error: messageOf(error) }))
  }

  /** Until it is stored, it can be read from memory. */
  async function keep(one: TaskRun, retryMs: number): Promise<void> {
    const { owner, task } = one
    const { id } = task
    try {
      const expiresAt = clock.now() + settings.resultTtlMs
      const isWritten =
        (await write(one, task, expiresAt)) || ((await isLost(one)) && (await write(one, task, expiresAt)))
      running.delete(id)
      if (!isWritten) {
        if (!one.cancelled)
          log.warn('another process has taken over a task of this process; its result here is dropped', { task: id })
      } else if (one.cancelled || (task.sendTo && !stopped && (await sent(task, task.sendTo)))) return
      else if (one.awaited === 0) onEnd(owner, task)
    } catch (error) {
      if (stopped) {
        running.delete(id)
        return log.error('cannot store the result of a task', { task: id, error: messageOf(error) })
      }
      log.warn('cannot store the result of a task; Pegboard tries again', { task: id, error: messageOf(error) })
      clock.after(retryMs, () => void keep(one, Math.min(retryMs * 2, RETRY_MS.most)))
    }
  }

  /** True if the result was sent to the owner's channel. */
  async function sent({ id, caller, outcome }: StoredTask, { channel, maxChars }: SendTarget): Promise<boolean> {
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
  const ledger = new Map<string, { readonly id: string; readonly bytes: number; readonly until: number }[]>()

  async function makeRoomFor({ id, caller, outcome, answer }: StoredTask): Promise<void> {
    const whose = JSON.stringify([caller.principal, caller.profile])
    const now = clock.now()
    const ledgerEntries = (ledger.get(whose) ?? []).filter(({ until }) => until > now)
    ledgerEntries.push({ id, bytes: JSON.stringify([outcome, answer]).length, until: now + settings.resultTtlMs })
    ledger.set(whose, ledgerEntries)
    let bytes = ledgerEntries.reduce((sum, one) => sum + one.bytes, 0)
    while (bytes > MAX_KEPT_BYTES && ledgerEntries.length > 1) {
      const oldest = ledgerEntries.shift()
      if (oldest === undefined) break
      bytes -= oldest.bytes
      await table().delete(oldest.id)
    }
  }

  async function makeRoom(owner: string): Promise<void> {
    if (++finished % LOOK_EVERY !== 0 || (await table().count(owner)) <= MAX_KEPT) return
    const over = (await table().list(owner))
      .filter(({ value }) => value.status !== 'running')
      .sort((a, b) => a.value.startedAt - b.value.startedAt)
    await Promise.all(over.slice(0, Math.max(0, over.length - MAX_KEPT)).map(({ id }) => table().delete(id)))
  }

  /** Leaves the task to another process, or to the next start. */
  async function release(one: TaskRun): Promise<void> {
    const { task } = one
    running.delete(task.id)
    try {
      await write(one, { ...task, instance: '' })
      await alarms.set(task.id, clock.now())
    } catch (error) {
      log.error('cannot hand over a task to another process', { task: task.id, error: messageOf(error) })
    }
  }

  return {
    get: (id) => running.get(id),
    all: () => [...running.values()],
    add(owner, task, { abort = new AbortController(), awaited = 0, revision = 0 }) {
      const one: TaskRun = {
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
        asked: 0,
      }
      running.set(task.id, one)
      return one
    },
    drop: (id) => void running.delete(id),
    run,
    follow,
    ask,
    reply(owner, id, answers) {
      const one = running.get(id)
      if (one?.owner !== owner) return
      for (const [key, answer] of Object.entries(answers)) one.questions.get(key)?.resolve(answer)
    },
    write,
    isLost,
    abort,
    async stop() {
      stopped = true
      const left = [...running.values()]
      for (const { abort } of left) abort.abort(shuttingDown())
      await Promise.all(left.map(({ ended }) => ended))
    },
  }
}
