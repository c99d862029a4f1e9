import type { Endpoints } from './catalog/catalog.ts'
import type { Config } from './config/load.ts'
import type { Clock } from './core/clock.ts'
import type { Caller } from './core/context.ts'
import { isPegboardError, messageOf } from './core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from './core/failure.ts'
import type { Log } from './core/log.ts'
import { once } from './core/once.ts'
import type { Adapters, FactStore } from './core/services.ts'
import type { CallRequest, Calls } from './exec/call.ts'
import { createDelivery, type Delivery } from './exec/delivery.ts'
import { createFacts, type Facts, factsSection, type ListedFact } from './exec/facts.ts'
import { createInbox, type Inbox } from './exec/inbox.ts'
import { createInstance } from './exec/instance.ts'
import type { Lacks } from './exec/on-behalf.ts'
import { createSchedule, type Schedule } from './exec/schedule.ts'
import { callerNow, type RightsNow, type StoredCaller } from './exec/stored-caller.ts'
import { noticeOf } from './exec/task.ts'
import { taskRequests } from './exec/task-requests.ts'
import { createTasks, type Tasks } from './exec/tasks.ts'
import { createWatchers, type Watchers } from './exec/watchers.ts'
import { toFailure } from './server/answer.ts'
import type { FileOutlet } from './server/host.ts'
import { toErrorResult, toMcpResult } from './server/wire.ts'
import type { Shared } from './state/shared.ts'
import type { Connection } from './upstream/connection.ts'
import { createTaskRelay } from './upstream/task-relay.ts'
import type { View } from './view/view.ts'

/** What goes on when the call that asked for it is over: tasks, watchers, jobs, and what people want to be known later. */
export interface Planned {
  readonly tasks: Tasks
  readonly inbox: Inbox
  readonly delivery: Delivery
  /** What there are tools for; absent: the configuration has it switched off. */
  readonly tools: {
    readonly watchers?: () => Watchers
    readonly schedule?: () => Schedule
    readonly facts?: () => Facts
  }
  /** Tasks of a caller for older clients, to whom ours is a server that speaks the extension, as any other. */
  tasksOf(caller: Caller): Endpoints
  factsOf(caller: Caller): FactStore
  /** The facts of a caller, as a prompt tells them; undefined without any. */
  remembered(caller: Caller): Promise<string | undefined>
  /** Begins, for a process that serves: see `App.work`. A state that cannot be used is looked at again. */
  work(): Promise<void>
  /** Ends what runs; its results are kept. */
  stop(): Promise<void>
  /** Leaves what is still planned to others. */
  leave(): Promise<void>
}

export interface PlannedOptions {
  readonly execution: Config['execution']
  readonly shared: Shared
  readonly clock: Clock
  readonly log: Log
  /** What somebody may who is not here. @throws PegboardError E_OWNER_GONE */
  readonly rightsNow: RightsNow
  readonly calls: Pick<Calls, 'call' | 'usage'>
  /** As a client would call it, meta-tools included. */
  callAsClient(request: CallRequest): ReturnType<Calls['call']>
  view(caller: Caller): View
  adapters(caller: Caller): Adapters | null
  readonly files: FileOutlet
  /** Takes out what is known to be secret. */
  hide(text: string): string
  /** Whether servers are being looked at for the first time. */
  arriving(): boolean
}

/** A state that cannot be used is looked at again after this long. */
const AGAIN_MS = 5_000
/** So long servers that come for the first time are waited for, and looked at this often. */
const WAIT_MS = 3_000
const LOOK_MS = 250
/** Whether others have begun to keep something is looked at this often. */
const PAST_MS = 10_000

export function createPlanned(options: PlannedOptions): Planned {
  const { execution, shared, clock, log, rightsNow, calls } = options
  const instance = createInstance(shared, clock, log)
  const delivery = createDelivery({ adapters: options.adapters, channels: execution.outputChannels })
  const tasks = createTasks({
    rightsNow,
    deliver: delivery.send,
    instance,
    alarms: shared.alarms('task'),
    call: options.callAsClient,
    present: (result, caller) => toMcpResult(result, options.files, caller),
    presentError: (error) => {
      const failure = isPegboardError(error) ? error.cause : error
      if (isProtocolFailure(failure)) return { error: toFailure(failure) }
      // A bug of the tool is nothing that its caller could mend.
      if (!isPegboardError(error) || error.code === 'E_INTERNAL')
        return { error: { code: -32603, message: isPegboardError(error) ? error.message : 'Internal error' } }
      return { result: toErrorResult(error, false) }
    },
    clock,
    log: log.scoped('tasks'),
    shared,
    settings: execution.tasks,
  })
  const inbox = createInbox(shared, clock, log)
  tasks.onEnd((owner, task) => inbox.add(owner, noticeOf(task)))

  const lacks: Lacks = (who, name) => {
    try {
      return options.view(callerNow(who, rightsNow)).resolve(name).kind !== 'found'
    } catch {
      // That it may not be asked for now is told by the call.
      return false
    }
  }
  const isIdempotent = (who: StoredCaller, name: string): boolean => {
    try {
      const found = options.view(callerNow(who, rightsNow)).resolve(name)
      return found.kind === 'found' && found.tool.tool.idempotent
    } catch {
      return false
    }
  }
  const parts = () => ({
    call: (request: CallRequest) => calls.call(request),
    rightsNow,
    lacks,
    store: shared.store(),
    clock,
    log,
    inbox,
    instance,
    delivery,
  })
  const watchers = once(() =>
    createWatchers({ ...parts(), steady: shared.steady, alarms: shared.alarms('watcher', 'steady') }),
  )
  const schedule = once(() =>
    createSchedule({
      ...parts(),
      isIdempotent,
      key: shared.key,
      graceMs: execution.missedGraceMs,
      alarms: shared.alarms('job'),
    }),
  )
  const facts = once(() => createFacts({ store: shared.store, clock, hide: options.hide }))
  const schedules = execution.scheduler && execution.watchers

  const working = new Set<Watchers | Schedule>()
  let again: (() => void) | undefined
  let stopped = false
  let idle = ''
  let cancelPast: (() => void) | undefined
  /** Others may begin tasks in a folder that was empty when this process looked. */
  function awaitPast(): void {
    cancelPast = clock.after(PAST_MS, () => {
      if (!shared.hasPast) return awaitPast()
      Promise.all([tasks.start(), inbox.start()]).catch((error: unknown) => {
        log.warn('tasks of other processes are not looked after', { error: messageOf(error) })
        awaitPast()
      })
    })
  }
  async function work(): Promise<void> {
    // Servers that are looked at for the first time have the processor, and what was planned may need them.
    for (const until = clock.now() + WAIT_MS; options.arriving() && clock.now() < until; )
      await new Promise<void>((resolve) => clock.after(LOOK_MS, resolve))
    if (stopped) return
    try {
      if (shared.hasPast) await Promise.all([tasks.start(), inbox.start()])
      else awaitPast()
      await calls.usage.start({ hasPast: shared.hasPast, table: () => shared.store().table('usage'), clock, log })
      if (!execution.watchers) return
      await instance.join()
      for (const part of [watchers(), ...(schedules ? [schedule()] : [])]) {
        if (working.has(part)) continue
        await part.start()
        working.add(part)
      }
    } catch (error) {
      const why = messageOf(error)
      if (why !== idle) log.error('what is planned is not done, because the state cannot be used', { error: why })
      idle = why
      again = clock.after(AGAIN_MS, () => void work())
    }
  }

  return {
    tasks,
    inbox,
    delivery,
    tools: { ...(execution.watchers ? { watchers } : {}), ...(schedules ? { schedule, facts } : {}) },
    tasksOf(caller) {
      const answers = createTaskRelay({
        clock,
        ready: async () => ({ era: 'modern' }) as Connection,
        request: taskRequests(tasks, execution.tasks.resultTtlMs, caller),
        saw: () => undefined,
      })
      return {
        request: (method, params, relay, signal) =>
          answers[method]?.(params, relay, signal) ?? Promise.reject(new ProtocolFailure(-32601, 'Method not found')),
      }
    },
    factsOf(caller) {
      const told = ({ id, text, at }: ListedFact) => ({ id, content: text, since: at })
      return {
        add: async (content) => told(await facts().add(caller, content)),
        list: async () => (await facts().of(caller)).map(told),
        forget: (id) => facts().forget(caller, id),
      }
    },
    async remembered(caller) {
      if (!schedules || !shared.hasPast) return undefined
      const known = await facts().of(caller)
      return known.length === 0 ? undefined : factsSection(known)
    },
    work,
    async stop() {
      stopped = true
      again?.()
      cancelPast?.()
      await Promise.all([tasks.stop(), ...[...working].map((part) => part.stop())])
    },
    async leave() {
      await instance.leave().catch(() => undefined)
      instance.stop()
    },
  }
}
