import { randomUUID } from 'node:crypto'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { createEmitter } from '../core/emitter.ts'
import { isPegboardError, messageOf, PegboardError, shuttingDown } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { randomId } from '../core/random-id.ts'
import type { Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { Alarms } from '../state/alarms.ts'
import type { SharedState } from '../state/shared-state.ts'
import type { Table } from '../state/store.ts'
import {
  isStoredTask,
  type SendTarget,
  type StoredTask,
  type Task,
  type TaskAnswer,
  toPublicTask,
} from './background-task.ts'
import { textOf } from './channel-delivery.ts'
import type { ProcessHeartbeat } from './process-heartbeat.ts'
import { type RightsLookup, refreshCaller, toStoredCaller } from './stored-caller.ts'
import { sessionOwner, withoutConnection } from './task-owner.ts'
import { createTaskRecovery, currentOwner } from './task-recovery.ts'
import { createTaskRuns, type TaskRun } from './task-runs.ts'
import type { CallRequest } from './tool-calls.ts'

/** A call that runs already and becomes a task. */
export interface RunningCall {
  readonly work: Promise<ToolResult>
  readonly abort: AbortController
  /** Redirects its questions to `ask`. */
  redirectQuestions(ask: (method: string, params: unknown, signal?: AbortSignal) => Promise<unknown>): void
}

export interface Tasks {
  /** Starts to check tasks whose process died. */
  start(): Promise<void>
  /**
   * Starts a call. Answers after 300 ms, or when the call ends if that is sooner.
   * @param tool the tool that the request names; an idempotent one is run again if its process dies
   * @throws PegboardError the error of a call that failed in that time; E_OVERLOADED if the owner has too many tasks
   */
  begin(request: CallRequest, tool: Pick<Tool, 'id' | 'idempotent'>): Promise<Task>
  /**
   * Makes a task of a running call. It is stored when this resolves. @throws PegboardError E_OVERLOADED if the owner
   * has too many tasks
   */
  adopt(request: CallRequest, tool: Pick<Tool, 'id' | 'idempotent'>, call: RunningCall): Promise<Task>
  /** Answers some of a task's questions; the others stay open. */
  reply(owner: string, id: string, answers: Json): Promise<void>
  /** A task of this owner; `undefined` for all others. */
  get(owner: string, id: string): Promise<Task | undefined>
  /** Running tasks first, then the latest. */
  list(owner: string): Promise<readonly Task[]>
  /** Cancels a task. Returns an ended task unchanged. */
  cancel(owner: string, id: string): Promise<Task | undefined>
  /** Resolves when the task ends, after `timeoutMs`, or when `signal` aborts. */
  wait(owner: string, id: string, timeoutMs: number, signal?: AbortSignal): Promise<Task | undefined>
  /**
   * Sends the result to a channel when the task ends, or at once if it has ended. `undefined` if there is no such task.
   * @throws PegboardError
   */
  redirect(owner: string, id: string, to: SendTarget): Promise<Task | undefined>
  /** How long results are kept, in milliseconds. */
  readonly keptMs: number
  /** Number of tasks running in this process. */
  readonly running: number
  /** Calls `listener` for each task that ended while no caller waited for it. */
  onEnd(listener: (owner: string, task: Task) => void): () => void
  /** Starts no more tasks. Running ones continue. */
  drain(): void
  /** Interrupts running tasks and stores that. */
  stop(): Promise<void>
}

export interface TaskSettings {
  readonly resultTtlMs: number
  readonly maxRunning: number
}

export interface TasksOptions {
  readonly call: (request: CallRequest) => Promise<ToolResult>
  readonly lookUpRights: RightsLookup
  readonly clock: Clock
  readonly log: Log
  /** The store is opened when the first task starts. */
  readonly shared: Pick<SharedState, 'store' | 'publish' | 'subscribe'>
  readonly instance: ProcessHeartbeat
  readonly alarms: Alarms
  readonly settings: TaskSettings
  /** Converts a result to what clients receive. */
  present(result: ToolResult, caller: Caller): Json
  presentError(error: unknown): TaskAnswer
  deliver(caller: Caller, channel: string, text: string): Promise<void>
}

/** Messages between processes. */
const CANCELLED = 'cancelled'
const ANSWERED = 'answered'
const REDIRECTED = 'redirected'
/** Time that `begin` waits, in order to report a call that fails at once. */
const SETTLE_MS = 300

export function createTasks(options: TasksOptions): Tasks {
  const { clock, log, settings, instance, alarms, shared, lookUpRights } = options
  const taskEnded = createEmitter<[owner: string, task: Task]>()
  let stopped = false
  const tasks = (): Table<StoredTask> => shared.store().table('task', isStoredTask)
  const emitEnd = (owner: string, task: StoredTask): void => taskEnded.emit(owner, toPublicTask(task))
  const runs = createTaskRuns(options, tasks, emitEnd)
  const recovery = createTaskRecovery(options, tasks, runs, emitEnd)
  const { start, scheduleCheck, currentState } = recovery

  shared.subscribe(CANCELLED, (id) => {
    const taskRun = runs.get(id)
    if (taskRun) runs.abort(taskRun)
  })
  async function setChannel(owner: string, id: string, sendTo: SendTarget): Promise<void> {
    const taskRun = runs.get(id)
    if (taskRun?.owner !== owner) return
    taskRun.task = { ...taskRun.task, sendTo }
    await runs.write(taskRun, taskRun.task)
  }
  shared.subscribe(REDIRECTED, (text) => {
    setChannel(...(JSON.parse(text) as [string, string, SendTarget])).catch((error: unknown) =>
      log.warn('cannot store the channel of a result', { error: messageOf(error) }),
    )
  })
  shared.subscribe(ANSWERED, (text) => runs.reply(...(JSON.parse(text) as [string, string, Json])))
  instance.onBeat(() => {
    for (const taskRun of runs.all())
      syncWithStore(taskRun).catch((error: unknown) =>
        log.warn('cannot check a task', { task: taskRun.task.id, error: messageOf(error) }),
      )
  })
  /** Compares a task with the store, because messages from other processes may be lost. */
  async function syncWithStore(taskRun: TaskRun): Promise<void> {
    // The owner's token was revoked.
    if (isPegboardError(currentOwner(taskRun.task, lookUpRights))) return runs.abort(taskRun)
    const stored = await tasks().get(taskRun.task.id)
    if (stored?.value.status === 'cancelled') runs.abort(taskRun)
    else if (taskRun.task.status === 'running' && (taskRun.unwritten || (!stored && (await runs.isLost(taskRun)))))
      await runs.write(taskRun, taskRun.task)
  }

  /** Stores a new task. From then on it survives this process. */
  async function storeNewTask(
    { caller, input, name, callId = randomUUID() }: CallRequest,
    tool: Pick<Tool, 'id' | 'idempotent'>,
    abort?: AbortController,
  ): Promise<TaskRun> {
    await start()
    if (stopped) throw shuttingDown()
    const owner = sessionOwner(caller)
    const runningCount = runs.all().filter((one) => one.owner === owner && one.task.status === 'running').length
    if (runningCount >= settings.maxRunning)
      throw new PegboardError('E_OVERLOADED', `${runningCount} background tasks are running.`, {
        hint: 'Wait for one with background_wait, or raise execution.tasks.maxRunning.',
      })
    const id = randomId()
    const task: StoredTask = {
      id,
      tool: tool.id,
      status: 'running',
      startedAt: clock.now(),
      instance: instance.id,
      caller: toStoredCaller(caller),
      name,
      input,
      callId,
      idempotent: tool.idempotent,
      tries: 1,
    }
    const taskRun = runs.add(owner, task, { ...(abort ? { abort } : {}), awaited: 1 })
    try {
      await instance.begin()
      await runs.write(taskRun, task)
      await scheduleCheck(id)
    } catch (error) {
      runs.drop(id)
      instance.end()
      throw error
    }
    return taskRun
  }

  async function find(owner: string, id: string): Promise<Task | undefined> {
    const stored = await tasks().get(id)
    if (stored) return stored.owner === owner ? currentState(stored) : undefined
    const localRun = runs.get(id)
    return localRun?.owner === owner ? toPublicTask(localRun.task) : undefined
  }

  /** Cancels a task that another process runs. */
  async function cancelElsewhere(owner: string, id: string): Promise<void> {
    for (;;) {
      const stored = await tasks().get(id)
      if (stored?.value.status !== 'running') return
      const value: StoredTask = { ...stored.value, input: undefined, status: 'cancelled', finishedAt: clock.now() }
      const expiresAt = clock.now() + settings.resultTtlMs
      if ((await tasks().put({ id, owner, value, expiresAt }, stored.revision)) !== undefined)
        return shared.publish(CANCELLED, id)
    }
  }

  return {
    keptMs: settings.resultTtlMs,
    get running() {
      return runs.all().length
    },
    start,
    async begin(request, tool) {
      const taskRun = await storeNewTask(request, tool)
      const { id } = taskRun.task
      const { signal: _signal, abort: _abort, onProgress: _onProgress, ...rest } = request
      const ended = runs.run(taskRun, {
        ...rest,
        callId: taskRun.task.callId,
        caller: withoutConnection(request.caller),
      })
      await waitAtMost(SETTLE_MS, taskRun.ended, undefined, clock)
      taskRun.awaited--
      if (ended.failure !== undefined) {
        await tasks()
          .delete(id)
          .catch((error: unknown) =>
            log.warn('cannot remove a task that failed immediately', { error: messageOf(error) }),
          )
        throw ended.failure
      }
      return toPublicTask(taskRun.task)
    },
    async adopt(request, tool, call) {
      const taskRun = await storeNewTask(request, tool, call.abort)
      call.redirectQuestions((method, params, signal) => runs.ask(taskRun, method, params, signal))
      runs.track(taskRun, call.work)
      taskRun.awaited--
      return toPublicTask(taskRun.task)
    },
    async reply(owner, id, answers) {
      if (runs.get(id)) runs.reply(owner, id, answers)
      else shared.publish(ANSWERED, JSON.stringify([owner, id, answers]))
    },
    get: find,
    async list(owner) {
      const all = await Promise.all((await tasks().list(owner)).map(currentState))
      const rank = ({ status }: Task): number => (status === 'running' ? 0 : 1)
      return all.sort((a, b) => rank(a) - rank(b) || b.startedAt - a.startedAt)
    },
    async cancel(owner, id) {
      const task = await find(owner, id)
      if (task?.status !== 'running') return task
      const localRun = runs.get(id)
      if (localRun) {
        runs.abort(localRun)
        // Ends even if the tool ignores the signal: the call path stops waiting for it.
        await localRun.ended
      } else await cancelElsewhere(owner, id)
      return find(owner, id)
    },
    async wait(owner, id, timeoutMs, signal) {
      const task = await find(owner, id)
      if (task?.status !== 'running') return task
      const localRun = runs.get(id)
      if (localRun) localRun.awaited++
      await new Promise<void>((resolve) => {
        let isDone = false
        const cancel = clock.after(timeoutMs, done)
        function done(): void {
          isDone = true
          cancel()
          signal?.removeEventListener('abort', done)
          resolve()
        }
        signal?.addEventListener('abort', done, { once: true })
        localRun?.ended.then(done)
        // Another process runs it, so poll the store.
        if (!localRun) poll()
        function poll(): void {
          clock.after(Math.min(1_000, timeoutMs), () => {
            find(owner, id).then((current) => {
              if (current?.status !== 'running') done()
              else if (!isDone) poll()
            }, done)
          })
        }
      })
      if (localRun) localRun.awaited--
      return find(owner, id)
    },
    async redirect(owner, id, sendTo) {
      const task = await find(owner, id)
      if (!task) return undefined
      if (task.status === 'running') {
        // Only the process that runs the task writes it.
        if (!runs.get(id)) shared.publish(REDIRECTED, JSON.stringify([owner, id, sendTo]))
        await setChannel(owner, id, sendTo)
        return task
      }
      const stored = await tasks().get(id)
      if (stored?.value.outcome)
        await options.deliver(
          refreshCaller(stored.value.caller, lookUpRights),
          sendTo.channel,
          textOf(stored.value.outcome, sendTo.maxChars),
        )
      return task
    },
    onEnd: taskEnded.listen,
    drain() {
      stopped = true
      recovery.drain()
    },
    async stop() {
      stopped = true
      recovery.drain()
      await runs.stop()
      await alarms.stop()
    },
  }
}
