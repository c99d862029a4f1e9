import { randomUUID } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import type { Ending } from '../core/ending.ts'
import { isPegboardError, messageOf, PegboardError, shuttingDown } from '../core/errors.ts'
import { newHandle } from '../core/handle.ts'
import type { Log } from '../core/log.ts'
import type { ToolResult } from '../core/result.ts'
import type { Tool } from '../core/tool.ts'
import type { Alarms } from '../state/alarms.ts'
import type { Shared } from '../state/shared.ts'
import type { Stored, Table, Write } from '../state/store.ts'
import type { CallRequest } from './call.ts'
import { textOf } from './delivery.ts'
import type { Instance } from './instance.ts'
import { failureOf } from './outcome.ts'
import { sessionOwner, unattended } from './owner.ts'
import { callerNow, type RightsNow, storedCaller } from './stored-caller.ts'
import { type Answered, interrupted, isKept, type Json, type Kept, type SendTo, shown, type Task } from './task.ts'
import { createRuns, type Running } from './task-runs.ts'

/** A call that is under way, and what happens to what it asks. */
export interface UnderWay {
  readonly work: Promise<ToolResult>
  readonly ending: Ending
  /** From now on its questions come here. */
  askedBy(ask: (method: string, params: unknown, signal?: AbortSignal) => Promise<unknown>): void
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
  /** How long the result of one is kept. */
  readonly keptMs: number
  /** How many run in this process. */
  readonly running: number
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
  readonly rightsNow: RightsNow
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
const AGAIN_MS = 5_000
/** In steps of this: whoever else plans to look does it at the same moment, which is one alarm. */
const STEP_MS = 5_000
/** What processes tell each other. */
const CANCELLED = 'cancelled'
const ANSWERED = 'answered'
const REDIRECTED = 'redirected'
/** One that ends its process each time is given up. */
const MAX_TRIES = 5
/** Long enough for a call that cannot work to say so. */
const SETTLE_MS = 300

export function createTasks(options: TasksOptions): Tasks {
  const { clock, log, settings, instance, alarms, shared, rightsNow } = options
  const listeners = new Set<(owner: string, task: Task) => void>()
  let stopped = false
  const tasks = (): Table<Kept> => shared.store().table('task', isKept)
  const tell = (owner: string, task: Kept): void => {
    for (const listener of listeners) listener(owner, shown(task))
  }
  const runs = createRuns(options, tasks, tell)

  shared.hear(CANCELLED, (id) => {
    const one = runs.get(id)
    if (one) runs.abort(one)
  })
  async function redirected(owner: string, id: string, sendTo: SendTo): Promise<void> {
    const one = runs.get(id)
    if (one?.owner !== owner) return
    one.task = { ...one.task, sendTo }
    await runs.write(one, one.task)
  }
  shared.hear(REDIRECTED, (text) => {
    redirected(...(JSON.parse(text) as [string, string, SendTo])).catch((error: unknown) =>
      log.warn('where a result is sent could not be kept', { error: messageOf(error) }),
    )
  })
  shared.hear(ANSWERED, (text) => runs.reply(...(JSON.parse(text) as [string, string, Json])))
  instance.onBeat(() => {
    for (const one of runs.all())
      exchange(one).catch((error: unknown) =>
        log.warn('a task could not be looked at', { task: one.task.id, error: messageOf(error) }),
      )
  })
  /** What others say may be missed, and is in the store all the same; how far it is, they read there. */
  async function exchange(one: Running): Promise<void> {
    const kept = await tasks().get(one.task.id)
    if (kept?.value.status === 'cancelled') runs.abort(one)
    else if (one.task.status === 'running' && (one.unwritten || (!kept && (await runs.isLost(one)))))
      await runs.write(one, one.task)
  }

  /** One that says it runs in a process that is gone does not. */
  async function truth({ id, owner, value, revision }: Stored<Kept>): Promise<Task> {
    const own = runs.get(id)
    if (own) return shown(own.task)
    if (value.status !== 'running') return shown(value)
    if (await isRun(id, value)) return shown(value)
    return shown((await rescue({ id, owner, value, revision })) ?? value)
  }

  /** Whether a process that lives does it. What is ours and does not run here does not run at all. */
  const isRun = async (id: string, { instance: by }: Kept): Promise<boolean> =>
    by === instance.id ? runs.get(id) !== undefined : await instance.isAlive(by)

  /** For whoever finds it when its process has died. What is not planned now is when all that is kept is looked at. */
  const lookAgain = (id: string): Promise<void> =>
    alarms
      .set(id, Math.ceil((clock.now() + AGAIN_MS) / STEP_MS) * STEP_MS)
      .catch((error: unknown) => log.warn('a task is not looked after for now', { task: id, error: messageOf(error) }))

  /** Goes on with one whose process has died, where that does no harm; else says that it is over. */
  async function rescue({ id, owner, value, revision }: Stored<Kept>): Promise<Kept | undefined> {
    if (stopped) return undefined
    const caller = value.idempotent && value.tries < MAX_TRIES ? ownerNow(value) : undefined
    if (caller && !isPegboardError(caller)) {
      const task = { ...value, instance: instance.id, tries: value.tries + 1 }
      const claimed = await claim({ id, owner, value: task }, revision)
      if (claimed === undefined) return undefined
      runs.run(runs.add(owner, task, { revision: claimed }), {
        name: value.name,
        input: value.input,
        callId: value.callId,
        caller,
      })
      await lookAgain(id)
      return task
    }
    const over = interrupted(value, clock.now())
    const ended = caller ? { ...over, outcome: failureOf(caller) } : over
    const expiresAt = clock.now() + settings.resultTtlMs
    if ((await tasks().put({ id, owner, value: ended, expiresAt }, revision)) === undefined) return undefined
    tell(owner, ended)
    return ended
  }

  /** Who it is for, with the rights of now; the refusal where it may not come in any more. */
  function ownerNow({ caller }: Kept): Caller | PegboardError {
    try {
      return callerNow(caller, rightsNow)
    } catch (error) {
      if (isPegboardError(error)) return error
      throw error
    }
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

  /** Writes down a new one. From then on it is somebody's, whatever becomes of this process. */
  async function admit(
    { caller, input, name, callId = randomUUID() }: CallRequest,
    tool: Pick<Tool, 'id' | 'idempotent'>,
    ending?: Ending,
  ): Promise<Running> {
    await start()
    if (stopped) throw shuttingDown()
    const owner = sessionOwner(caller)
    const busy = runs.all().filter((one) => one.owner === owner && one.task.status === 'running').length
    if (busy >= settings.maxRunning)
      throw new PegboardError('E_OVERLOADED', `${busy} background tasks are running.`, {
        hint: 'Wait for one with background_wait, or raise execution.tasks.maxRunning.',
      })
    const id = newHandle()
    const task: Kept = {
      id,
      tool: tool.id,
      status: 'running',
      startedAt: clock.now(),
      instance: instance.id,
      caller: storedCaller(caller),
      name,
      input,
      callId,
      idempotent: tool.idempotent,
      tries: 1,
    }
    const one = runs.add(owner, task, { ...(ending ? { ending } : {}), awaited: 1 })
    try {
      await instance.begin()
      await runs.write(one, task)
      await lookAgain(id)
    } catch (error) {
      runs.drop(id)
      instance.end()
      throw error
    }
    return one
  }

  async function find(owner: string, id: string): Promise<Task | undefined> {
    const kept = await tasks().get(id)
    if (kept) return kept.owner === owner ? truth(kept) : undefined
    const own = runs.get(id)
    return own?.owner === owner ? shown(own.task) : undefined
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
    keptMs: settings.resultTtlMs,
    get running() {
      return runs.all().length
    },
    start,
    async begin(request, tool) {
      const one = await admit(request, tool)
      const { id } = one.task
      const { signal: _gone, abort: _theirs, onProgress: _nobody, ...rest } = request
      const ended = runs.run(one, { ...rest, callId: one.task.callId, caller: unattended(request.caller) })
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
      call.askedBy((method, params, signal) => runs.ask(one, method, params, signal))
      runs.follow(one, call.work)
      one.awaited--
      return shown(one.task)
    },
    async reply(owner, id, answers) {
      if (runs.get(id)) runs.reply(owner, id, answers)
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
      const own = runs.get(id)
      if (own) {
        runs.abort(own)
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
      const own = runs.get(id)
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
        if (!runs.get(id)) shared.tell(REDIRECTED, JSON.stringify([owner, id, sendTo]))
        await redirected(owner, id, sendTo)
        return task
      }
      const kept = await tasks().get(id)
      if (kept?.value.outcome)
        await options.deliver(
          callerNow(kept.value.caller, rightsNow),
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
      await runs.stop()
      await alarms.stop()
    },
  }
}

function settled(over: Promise<void>, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.after(SETTLE_MS, resolve)
    over.then(() => {
      cancel()
      resolve()
    })
  })
}
