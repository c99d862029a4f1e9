import { randomBytes } from 'node:crypto'
import { newerAsk } from '../core/asks.ts'
import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import { createEnding, type Ending } from '../core/ending.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { ToolResult } from '../core/result.ts'
import { noRelay, type Tool } from '../core/tool.ts'
import type { Alarms } from '../state/alarms.ts'
import type { Shared } from '../state/shared.ts'
import type { Stored, Table, Write } from '../state/store.ts'
import type { CallRequest } from './call.ts'
import { textOf } from './delivery.ts'
import type { Instance } from './instance.ts'
import { failureOf, type Outcome, outcomeOf } from './outcome.ts'
import { sessionOwner, unattended } from './owner.ts'
import { callerAgain, type StoredCaller, storedCaller } from './stored-caller.ts'

export type TaskStatus = 'running' | 'completed' | 'failed' | 'cancelled' | 'interrupted'

/** Work that outlives the call that began it. */
export interface Task {
  readonly id: string
  /** The id of its tool. */
  readonly tool: string
  readonly status: TaskStatus
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly finishedAt?: number
  readonly progress?: { readonly done: number; readonly total?: number; readonly message?: string }
  readonly outcome?: Outcome
  /** What its client would have been answered. */
  readonly answer?: Answered
  /** What it wants to know of its client, by a name of the question. */
  readonly questions?: Readonly<Record<string, unknown>>
}

/** A result as clients get it, or an error of the protocol. */
export type Answered =
  | { readonly result: Json }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } }

type Json = Readonly<Record<string, unknown>>

/** A call that is under way, and what happens to what it asks. */
export interface UnderWay {
  readonly work: Promise<ToolResult>
  readonly ending: Ending
  /** From now on its questions come here. */
  askedBy(ask: (method: string, params: unknown, signal?: AbortSignal) => Promise<unknown>): void
}

/** Where what it gives is sent when it is over. */
export interface SendTo {
  readonly channel: string
  readonly maxChars: number
}

/** As it is kept: with the process that runs it, and what is needed to run it again where that does no harm. */
interface Kept extends Task {
  readonly instance: string
  readonly caller: StoredCaller
  /** As it was called: what stands between the client and the tool is called again. */
  readonly name: string
  readonly input: unknown
  readonly idempotent: boolean
  /** How often it was begun. */
  readonly tries: number
  readonly sendTo?: SendTo
}

export interface Tasks {
  /** From now on looks after those whose process has died. */
  start(): Promise<void>
  /**
   * Begins a call and answers when it has been running for a moment.
   * @param tool what the name of the request means; one that is idempotent is begun again when its process dies
   * @throws PegboardError what the call failed with, when it failed in that moment; E_OVERLOADED over the bound
   */
  begin(request: CallRequest, tool: Pick<Tool, 'id' | 'idempotent'>): Promise<Task>
  /** Makes a task of a call. It is kept when this answers. @throws PegboardError E_OVERLOADED over the bound */
  adopt(request: CallRequest, tool: Pick<Tool, 'id' | 'idempotent'>, call: UnderWay): Promise<Task>
  /** Answers some of its questions; the others stay. */
  reply(owner: string, id: string, answers: Json): Promise<void>
  /** The caller's own; `undefined` for all others. */
  get(owner: string, id: string): Promise<Task | undefined>
  /** Running ones first, then the latest. */
  list(owner: string): Promise<readonly Task[]>
  /** Ends it. Answers as it was when it had ended before. */
  cancel(owner: string, id: string): Promise<Task | undefined>
  /** Answers when it is over, or after `timeoutMs`. */
  wait(owner: string, id: string, timeoutMs: number, signal?: AbortSignal): Promise<Task | undefined>
  /** Has what it gives sent somewhere, at once when it is over. `undefined` where there is none. @throws PegboardError */
  redirect(owner: string, id: string, to: SendTo): Promise<Task | undefined>
  /** Told of each that ended with nobody waiting for it, with whose it is. */
  onEnd(listener: (owner: string, task: Task) => void): () => void
  /** What runs is interrupted, and that is kept. */
  stop(): Promise<void>
}

export interface TaskSettings {
  /** How long the result of a task is kept. */
  readonly resultTtlMs: number
  /** Running at once, of one owner. */
  readonly maxRunning: number
}

export interface TasksOptions {
  readonly call: (request: CallRequest) => Promise<ToolResult>
  readonly clock: Clock
  readonly log: Log
  /** Its store is opened when the first task begins. */
  readonly shared: Pick<Shared, 'store' | 'tell' | 'hear'>
  readonly instance: Instance
  readonly alarms: Alarms
  readonly settings: TaskSettings
  /** What clients are answered with. */
  present(result: ToolResult, caller: Caller): Json
  presentError(error: unknown): Answered
  /** Sends a text to a channel. */
  deliver(caller: Caller, channel: string, text: string): Promise<void>
}

/** One that another process runs is looked at again after this long. */
const AGAIN_MS = 20_000
/** In steps of this: whoever else plans to look does it at the same moment, which is one alarm. */
const STEP_MS = 10_000
/** What could not be kept is tried again after this long, and then after twice as long each time. */
const RETRY_MS = { first: 500, most: 15_000 } as const
/** What processes tell each other. */
const CANCELLED = 'cancelled'
const ANSWERED = 'answered'
const REDIRECTED = 'redirected'
/** One that ends its process each time is given up. */
const MAX_TRIES = 3
/** Of one owner, looked at each so many tasks: then the oldest go of those that are over. */
const MAX_KEPT = 1_000
const LOOK_EVERY = 100
/** Long enough for a call that cannot work to say so. */
const SETTLE_MS = 300
const PREVIEW = 2_000

interface Running {
  readonly owner: string
  readonly ending: Ending
  /** Somebody waits for it to end, and needs no notice. */
  awaited: number
  /** What it was last written as: when another process has written since, what comes of it here is not kept. */
  revision: number
  /** What is being written. */
  writing: Promise<unknown>
  task: Kept
  over: Promise<void>
  cancelled: boolean
  readonly questions: Map<string, { readonly ask: unknown; resolve(answer: unknown): void }>
  asked: number
}

const runningOf = (owner: string, task: Kept, ending: Ending, awaited: number): Running => ({
  owner,
  task,
  ending,
  awaited,
  over: Promise.resolve(),
  revision: 0,
  writing: Promise.resolve(),
  cancelled: false,
  questions: new Map(),
  asked: 0,
})

export function createTasks(options: TasksOptions): Tasks {
  const { clock, log, settings, instance, alarms, shared } = options
  const running = new Map<string, Running>()
  const listeners = new Set<(owner: string, task: Task) => void>()
  let stopped = false
  let finished = 0
  const tasks = (): Table<Kept> => shared.store().table('task')

  function abort(one: Running): void {
    one.cancelled = true
    one.ending.abort(cancelledBy())
  }
  shared.hear(CANCELLED, (id) => {
    const one = running.get(id)
    if (one) abort(one)
  })
  function replied(owner: string, id: string, answers: Json): void {
    const one = running.get(id)
    if (one?.owner !== owner) return
    for (const [key, answer] of Object.entries(answers)) one.questions.get(key)?.resolve(answer)
  }
  async function redirected(owner: string, id: string, sendTo: SendTo): Promise<void> {
    const one = running.get(id)
    if (one?.owner !== owner) return
    one.task = { ...one.task, sendTo }
    await write(one, one.task)
  }
  shared.hear(REDIRECTED, (text) => {
    redirected(...(JSON.parse(text) as [string, string, SendTo])).catch((error: unknown) =>
      log.warn('where a result is sent could not be kept', { error: messageOf(error) }),
    )
  })
  shared.hear(ANSWERED, (text) => replied(...(JSON.parse(text) as [string, string, Json])))
  // What others say may be missed, and is in the store all the same.
  instance.onBeat(() => {
    for (const [id, one] of running)
      tasks()
        .get(id)
        .then(
          (kept) => kept?.value.status === 'cancelled' && abort(one),
          (error: unknown) => log.warn('a task could not be looked at', { task: id, error: messageOf(error) }),
        )
  })

  /** One that says it runs in a process that is gone does not. */
  async function truth({ id, owner, value, revision }: Stored<Kept>): Promise<Task> {
    const own = running.get(id)
    if (own) return shown(own.task)
    if (value.status !== 'running') return shown(value)
    if (await isRun(id, value)) return shown(value)
    return shown((await rescue({ id, owner, value, revision })) ?? value)
  }

  /** Whether a process that lives does it. What is ours and does not run here does not run at all. */
  const isRun = async (id: string, { instance: by }: Kept): Promise<boolean> =>
    by === instance.id ? running.has(id) : await instance.isAlive(by)

  /** For whoever finds it when its process has died. What is not planned now is when all that is kept is looked at. */
  const lookAgain = (id: string): Promise<void> =>
    alarms
      .set(id, Math.ceil((clock.now() + AGAIN_MS) / STEP_MS) * STEP_MS)
      .catch((error: unknown) => log.warn('a task is not looked after for now', { task: id, error: messageOf(error) }))

  /** Goes on with one whose process has died, where that does no harm; else says that it is over. */
  async function rescue({ id, owner, value, revision }: Stored<Kept>): Promise<Kept | undefined> {
    if (stopped) return undefined
    if (value.idempotent && value.tries < MAX_TRIES) {
      const task = { ...value, instance: instance.id, tries: value.tries + 1 }
      const claimed = await claim({ id, owner, value: task }, revision)
      if (claimed === undefined) return undefined
      const { caller, name, input } = value
      const one = runningOf(owner, task, createEnding(), 0)
      one.revision = claimed
      run(one, { name, input, caller: callerAgain(caller) })
      await lookAgain(id)
      return task
    }
    const ended = interrupted(value, clock.now())
    const expiresAt = clock.now() + settings.resultTtlMs
    if ((await tasks().put({ id, owner, value: ended, expiresAt }, revision)) === undefined) return undefined
    for (const listener of listeners) listener(owner, shown(ended))
    return ended
  }

  /** Ours from here on, unless another was faster. */
  async function claim(write: Write<Kept>, revision: number): Promise<number | undefined> {
    await instance.begin()
    let claimed: number | undefined
    try {
      claimed = await tasks().put(write, revision)
    } finally {
      if (claimed === undefined) instance.end()
    }
    return claimed
  }

  async function ring(id: string): Promise<void> {
    const row = await tasks().get(id)
    if (row?.value.status !== 'running' || stopped) return
    if (await isRun(id, row.value)) return lookAgain(id)
    await rescue(row)
  }

  /** Runs it to its end; whoever began it looks at `over`. Gives what it failed with. */
  function run(one: Running, request: CallRequest): { failure?: unknown } {
    running.set(one.task.id, one)
    return follow(
      one,
      options.call({
        ...request,
        relay: noRelay,
        abort: one.ending,
        onProgress(done, total, message) {
          const progress = { done, ...(total === undefined ? {} : { total }), ...(message ? { message } : {}) }
          one.task = { ...one.task, progress }
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

  /** A question of the task waits until somebody answers. */
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

  /** One after the other, as each is written over the one before. False when another process has written since. */
  function write(one: Running, task: Kept, expiresAt?: number): Promise<boolean> {
    const { id } = task
    const written = one.writing.then(async () => {
      const end = expiresAt === undefined ? {} : { expiresAt }
      const revision = await tasks().put({ id, owner: one.owner, value: task, ...end }, one.revision)
      one.revision = revision ?? one.revision
      return revision !== undefined
    })
    one.writing = written.catch(() => undefined)
    return written
  }

  /** Writes down a new one. From then on it is somebody's, whatever becomes of this process. */
  async function admit(
    { caller, input, name }: CallRequest,
    tool: Pick<Tool, 'id' | 'idempotent'>,
    ending: Ending,
  ): Promise<Running> {
    await start()
    if (stopped) throw new PegboardError('E_SHUTTING_DOWN', 'The server is stopping.')
    const owner = sessionOwner(caller)
    const busy = [...running.values()].filter((one) => one.owner === owner && one.task.status === 'running').length
    if (busy >= settings.maxRunning)
      throw new PegboardError('E_OVERLOADED', `${busy} background tasks are running.`, {
        hint: 'Wait for one with background_wait, or raise execution.tasks.maxRunning.',
      })
    const id = randomBytes(6).toString('hex')
    const task: Kept = {
      id,
      tool: tool.id,
      status: 'running',
      startedAt: clock.now(),
      instance: instance.id,
      caller: storedCaller(caller),
      name,
      input,
      idempotent: tool.idempotent,
      tries: 1,
    }
    const one = runningOf(owner, task, ending, 1)
    running.set(id, one)
    try {
      await instance.begin()
      await write(one, task)
      await lookAgain(id)
    } catch (error) {
      running.delete(id)
      instance.end()
      throw error
    }
    return one
  }

  async function find(owner: string, id: string): Promise<Task | undefined> {
    const kept = await tasks().get(id)
    return kept && kept.owner === owner ? truth(kept) : undefined
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
      const kept = await write(one, task, clock.now() + settings.resultTtlMs)
      running.delete(id)
      if (!kept) {
        if (!one.cancelled)
          log.warn('another process took a task for dead; what came of it here is dropped', { task: id })
      } else if (one.cancelled || (task.sendTo && !stopped && (await sent(task, task.sendTo)))) return
      else if (one.awaited === 0) for (const listener of listeners) listener(owner, shown(task))
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
      await options.deliver(callerAgain(caller), channel, textOf(outcome, maxChars))
      return true
    } catch (error) {
      log.warn('the result of a task could not be sent', { task: id, channel, error: messageOf(error) })
      return false
    }
  }

  async function makeRoom(owner: string): Promise<void> {
    if (++finished % LOOK_EVERY !== 0 || (await tasks().count(owner)) <= MAX_KEPT) return
    const over = (await tasks().list(owner))
      .filter(({ value }) => value.status !== 'running')
      .sort((a, b) => a.value.startedAt - b.value.startedAt)
    await Promise.all(over.slice(0, Math.max(0, over.length - MAX_KEPT)).map(({ id }) => tasks().delete(id)))
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

  let starting: Promise<void> | undefined
  const start = (): Promise<void> => {
    starting ??= alarms
      .start(ring, async () =>
        (await tasks().list()).flatMap(({ id, value }) => (value.status === 'running' ? [{ id, at: 0 }] : [])),
      )
      .catch((error: unknown) => {
        // What cannot be read now may be read with the next one.
        starting = undefined
        throw error
      })
    return starting
  }

  return {
    start,
    async begin(request, tool) {
      const one = await admit(request, tool, createEnding())
      const { id } = one.task
      const { signal: _gone, abort: _theirs, onProgress: _nobody, ...rest } = request
      const ended = run(one, { ...rest, caller: unattended(request.caller) })
      await settled(one.over, clock)
      one.awaited--
      if (ended.failure !== undefined) {
        await tasks()
          .delete(id)
          .catch((error: unknown) => log.warn('a task that failed at once stays listed', { error: messageOf(error) }))
        throw ended.failure
      }
      return shown(one.task)
    },
    async adopt(request, tool, call) {
      const one = await admit(request, tool, call.ending)
      call.askedBy((method, params, signal) => ask(one, method, params, signal))
      follow(one, call.work)
      one.awaited--
      return shown(one.task)
    },
    async reply(owner, id, answers) {
      if (running.has(id)) replied(owner, id, answers)
      else shared.tell(ANSWERED, JSON.stringify([owner, id, answers]))
    },
    get: find,
    async list(owner) {
      const all = await Promise.all((await tasks().list(owner)).map(truth))
      const rank = ({ status }: Task): number => (status === 'running' ? 0 : 1)
      return all.sort((a, b) => rank(a) - rank(b) || b.startedAt - a.startedAt)
    },
    async cancel(owner, id) {
      const before = await find(owner, id)
      if (before?.status !== 'running') return before
      const own = running.get(id)
      if (own) {
        abort(own)
        // A tool that is deaf to it is told of as ended all the same: the call path gives up on it.
        await own.over
      } else {
        let done = false
        while (!done) {
          const kept = await tasks().get(id)
          if (kept?.value.status !== 'running') break
          const value: Kept = { ...kept.value, status: 'cancelled', finishedAt: clock.now() }
          const expiresAt = clock.now() + settings.resultTtlMs
          done = (await tasks().put({ id, owner, value, expiresAt }, kept.revision)) !== undefined
        }
        if (done) shared.tell(CANCELLED, id)
      }
      return find(owner, id)
    },
    async wait(owner, id, timeoutMs, signal) {
      const task = await find(owner, id)
      if (task?.status !== 'running') return task
      const own = running.get(id)
      if (own) own.awaited++
      await new Promise<void>((resolve) => {
        const cancel = clock.after(timeoutMs, done)
        function done(): void {
          cancel()
          signal?.removeEventListener('abort', done)
          resolve()
        }
        signal?.addEventListener('abort', done, { once: true })
        own?.over.then(done)
        // Another process runs it: asked now and then.
        if (!own) look()
        function look(): void {
          clock.after(Math.min(1_000, timeoutMs), () => {
            find(owner, id).then((now) => (now?.status === 'running' ? look() : done()), done)
          })
        }
      })
      if (own) own.awaited--
      return find(owner, id)
    },
    async redirect(owner, id, sendTo) {
      const task = await find(owner, id)
      if (!task) return undefined
      if (task.status === 'running') {
        // Only the process that runs it writes it.
        if (!running.has(id)) shared.tell(REDIRECTED, JSON.stringify([owner, id, sendTo]))
        await redirected(owner, id, sendTo)
        return task
      }
      const kept = await tasks().get(id)
      if (kept?.value.outcome)
        await options.deliver(
          callerAgain(kept.value.caller),
          sendTo.channel,
          textOf(kept.value.outcome, sendTo.maxChars),
        )
      return task
    },
    onEnd(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async stop() {
      stopped = true
      const left = [...running.values()]
      for (const { ending } of left) ending.abort(new PegboardError('E_SHUTTING_DOWN', 'The server is stopping.'))
      await Promise.all(left.map(({ over }) => over))
      await alarms.stop()
    },
  }
}

const shown = ({
  instance: _ours,
  caller: _whose,
  input: _what,
  idempotent: _may,
  tries: _often,
  sendTo: _where,
  ...task
}: Kept): Task => task

const interrupted = (task: Kept, at: number): Kept => ({
  ...task,
  status: 'interrupted',
  finishedAt: at,
  outcome: { success: false, code: 'E_SHUTTING_DOWN', error: 'The server ended while the task was running.' },
})

const cancelledBy = (): PegboardError => new PegboardError('E_CANCELLED', 'The task was cancelled.')

function settled(over: Promise<void>, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.after(SETTLE_MS, resolve)
    over.then(() => {
      cancel()
      resolve()
    })
  })
}

/** The line its owner reads when it is over. */
export function noticeOf({ id, tool, status, startedAt, finishedAt = startedAt, outcome }: Task): string {
  const said = outcome === undefined ? '' : outcome.success ? JSON.stringify(outcome.data) : outcome.error
  const preview = said.length > PREVIEW ? `${said.slice(0, PREVIEW)}…` : said
  return `Background task ${id} (${tool}) ${status} after ${((finishedAt - startedAt) / 1_000).toFixed(1)} s: ${preview}`
}
