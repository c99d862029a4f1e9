import { newerAsk } from '../core/asks.ts'
import { createEnding, type Ending } from '../core/ending.ts'
import { isPegboardError, messageOf, PegboardError, shuttingDown } from '../core/errors.ts'
import type { ToolResult } from '../core/result.ts'
import { noRelay } from '../core/tool.ts'
import type { Table } from '../state/store.ts'
import type { CallRequest } from './call.ts'
import { textOf } from './delivery.ts'
import { failureOf, type Outcome, outcomeOf } from './outcome.ts'
import { callerAgain, callerNow } from './stored-caller.ts'
import type { Answered, Json, Kept, SendTo } from './task.ts'
import type { TasksOptions } from './tasks.ts'

/** What could not be kept is tried again after this long, and then after twice as long each time. */
const RETRY_MS = { first: 500, most: 15_000 } as const
/** Of one owner, looked at each so many tasks: then the oldest go of those that are over. */
const MAX_KEPT = 1_000
const LOOK_EVERY = 100

/** A task that runs in this process. */
export interface Running {
  readonly owner: string
  readonly ending: Ending
  /** Somebody waits for it to end, and needs no notice. */
  awaited: number
  /** What it was last written as: when another process has written since, what comes of it here is not kept. */
  revision: number
  /** What is being written. */
  writing: Promise<unknown>
  task: Kept
  /** What of it only this process knows, and others may know later. */
  unwritten: boolean
  over: Promise<void>
  cancelled: boolean
  readonly questions: Map<string, { readonly ask: unknown; resolve(answer: unknown): void }>
  asked: number
}

/** The tasks that run in this process: from being written down to being over, and what they ask meanwhile. */
export interface Runs {
  get(id: string): Running | undefined
  all(): readonly Running[]
  /** It is ours from here on. `revision`: what it is kept as, 0 while it is not. */
  add(owner: string, task: Kept, how: Partial<Pick<Running, 'ending' | 'awaited' | 'revision'>>): Running
  drop(id: string): void
  /** Runs it to its end; whoever began it looks at `over`. Gives what it failed with. */
  run(one: Running, request: CallRequest): { failure?: unknown }
  /** The same of a call that is under way. */
  follow(one: Running, work: Promise<ToolResult>): { failure?: unknown }
  /** A question of the task waits until somebody answers. */
  ask(one: Running, method: string, params: unknown, signal?: AbortSignal): Promise<unknown>
  /** Nothing where it is not the owner's, or does not run here. */
  reply(owner: string, id: string, answers: Json): void
  /** One after the other, as each is written over the one before. False when another process has written since. */
  write(one: Running, task: Kept, expiresAt?: number): Promise<boolean>
  /** Whether it is not kept any more. It is again with the next write. */
  isLost(one: Running): Promise<boolean>
  abort(one: Running): void
  /** What runs is ended, and that is kept. */
  stop(): Promise<void>
}

/** @param onEnd told of each that ended with nobody waiting for it, once that is kept */
export function createRuns(
  options: TasksOptions,
  table: () => Table<Kept>,
  onEnd: (owner: string, task: Kept) => void,
): Runs {
  const { clock, log, settings, instance, alarms } = options
  const running = new Map<string, Running>()
  let stopped = false
  let finished = 0

  function abort(one: Running): void {
    one.cancelled = true
    one.ending.abort(cancelledBy())
  }

  function run(one: Running, request: CallRequest): { failure?: unknown } {
    return follow(
      one,
      options.call({
        ...request,
        relay: noRelay,
        abort: one.ending,
        onProgress(done, total, message) {
          const progress = { done, ...(total === undefined ? {} : { total }), ...(message ? { message } : {}) }
          one.task = { ...one.task, progress }
          one.unwritten = true
        },
      }),
    )
  }

  function follow(one: Running, work: Promise<ToolResult>): { failure?: unknown } {
    const ended: { failure?: unknown } = {}
    const failed = (error: unknown): [Outcome, Answered] => {
      ended.failure = error
      const told = isPegboardError(error) ? error : new PegboardError('E_INTERNAL', messageOf(error))
      return [failureOf(told), options.presentError(error)]
    }
    one.over = work
      .then((result): [Outcome, Answered] => [
        outcomeOf(result).outcome,
        { result: options.present(result, callerAgain(one.task.caller)) },
      ])
      // A result that nobody can be told of is a failure too: the task ends in any case.
      .catch(failed)
      .then(([outcome, answer]) => finish(one, outcome, answer))
    return ended
  }

  function ask(one: Running, method: string, params: unknown, signal?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const key = `${method.split('/', 1)[0]}-${++one.asked}`
      const settle = (then: () => void): void => {
        one.questions.delete(key)
        saveQuestions(one)
        then()
      }
      signal?.addEventListener('abort', () => settle(() => reject(signal.reason)), { once: true })
      one.questions.set(key, { ask: newerAsk(method, params), resolve: (answer) => settle(() => resolve(answer)) })
      saveQuestions(one)
    })
  }

  function saveQuestions(one: Running): void {
    if (!running.has(one.task.id)) return
    const questions = Object.fromEntries([...one.questions].map(([key, { ask }]) => [key, ask]))
    const { questions: _before, ...task } = one.task
    one.task = one.questions.size === 0 ? task : { ...task, questions }
    write(one, one.task).catch((error: unknown) =>
      log.error('the questions of a task could not be kept', { task: one.task.id, error: messageOf(error) }),
    )
  }

  function write(one: Running, task: Kept, expiresAt?: number): Promise<boolean> {
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

  /** Nobody deletes one that runs: where it is gone, all that was kept is, and the next write begins it anew. */
  async function isLost(one: Running): Promise<boolean> {
    if ((await table().get(one.task.id)) !== undefined) return false
    one.revision = 0
    return true
  }

  async function finish(one: Running, outcome: Outcome, answer: Answered): Promise<void> {
    const { cancelled } = one
    instance.end()
    if (stopped && !cancelled && !outcome.success && one.task.idempotent) return release(one)
    const status = cancelled ? 'cancelled' : stopped ? 'interrupted' : outcome.success ? 'completed' : 'failed'
    one.task = { ...one.task, status, finishedAt: clock.now(), outcome, answer }
    alarms.clear(one.task.id)
    await keep(one, RETRY_MS.first)
    await makeRoom(one.owner).catch((error: unknown) =>
      log.warn('old tasks could not be deleted', { error: messageOf(error) }),
    )
  }

  /** Until it is kept it can be read here. */
  async function keep(one: Running, retryMs: number): Promise<void> {
    const { owner, task } = one
    const { id } = task
    try {
      const expiresAt = clock.now() + settings.resultTtlMs
      const kept = (await write(one, task, expiresAt)) || ((await isLost(one)) && (await write(one, task, expiresAt)))
      running.delete(id)
      if (!kept) {
        if (!one.cancelled)
          log.warn('another process took a task for dead; what came of it here is dropped', { task: id })
      } else if (one.cancelled || (task.sendTo && !stopped && (await sent(task, task.sendTo)))) return
      else if (one.awaited === 0) onEnd(owner, task)
    } catch (error) {
      if (stopped) {
        running.delete(id)
        return log.error('the result of a task could not be kept', { task: id, error: messageOf(error) })
      }
      log.warn('the result of a task could not be kept; it is tried again', { task: id, error: messageOf(error) })
      clock.after(retryMs, () => void keep(one, Math.min(retryMs * 2, RETRY_MS.most)))
    }
  }

  /** Whether what it gave is where its owner wants it. */
  async function sent({ id, caller, outcome }: Kept, { channel, maxChars }: SendTo): Promise<boolean> {
    if (!outcome) return false
    try {
      await options.deliver(callerNow(caller, options.rightsNow), channel, textOf(outcome, maxChars))
      return true
    } catch (error) {
      log.warn('the result of a task could not be sent', { task: id, channel, error: messageOf(error) })
      return false
    }
  }

  async function makeRoom(owner: string): Promise<void> {
    if (++finished % LOOK_EVERY !== 0 || (await table().count(owner)) <= MAX_KEPT) return
    const over = (await table().list(owner))
      .filter(({ value }) => value.status !== 'running')
      .sort((a, b) => a.value.startedAt - b.value.startedAt)
    await Promise.all(over.slice(0, Math.max(0, over.length - MAX_KEPT)).map(({ id }) => table().delete(id)))
  }

  /** For another process, or the next. */
  async function release(one: Running): Promise<void> {
    const { task } = one
    running.delete(task.id)
    try {
      await write(one, { ...task, instance: '' })
      await alarms.set(task.id, clock.now())
    } catch (error) {
      log.error('a task could not be handed on', { task: task.id, error: messageOf(error) })
    }
  }

  return {
    get: (id) => running.get(id),
    all: () => [...running.values()],
    add(owner, task, { ending = createEnding(), awaited = 0, revision = 0 }) {
      const one: Running = {
        owner,
        task,
        ending,
        awaited,
        over: Promise.resolve(),
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
      for (const { ending } of left) ending.abort(shuttingDown())
      await Promise.all(left.map(({ over }) => over))
    },
  }
}

const cancelledBy = (): PegboardError => new PegboardError('E_CANCELLED', 'The task was cancelled.')
