import type { Endpoints } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { once } from '../core/once.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import type { Adapters, FactStore, TaskState } from '../core/service-types.ts'
import type { Tool } from '../core/tool.ts'
import { noticeOf } from '../exec/background-task.ts'
import { createTasks } from '../exec/background-tasks.ts'
import { createDelivery } from '../exec/channel-delivery.ts'
import type { LacksTool } from '../exec/due-calls.ts'
import { createInbox } from '../exec/inbox.ts'
import { createProcessHeartbeat } from '../exec/process-heartbeat.ts'
import { createFacts, factsSection, type ListedFact } from '../exec/remembered-facts.ts'
import { createScheduler, type Scheduler } from '../exec/scheduler.ts'
import { type RightsLookup, refreshCaller, type StoredCaller } from '../exec/stored-caller.ts'
import { taskRequests } from '../exec/task-requests.ts'
import type { CallRequest, Calls } from '../exec/tool-calls.ts'
import { createWatchers, type Watchers } from '../exec/watchers.ts'
import { toFailure } from '../server/call-tool.ts'
import { toErrorResult, toMcpResult } from '../server/mcp-results.ts'
import type { FileOutlet } from '../server/server-host.ts'
import type { Connection } from '../upstream/connection.ts'
import { createTaskRelay } from '../upstream/task-relay.ts'
import type { AppBase } from './app-base.ts'

export interface DeferredWorkOptions extends AppBase {
  /** The current rights of an absent caller. @throws PegboardError E_OWNER_GONE */
  readonly lookUpRights: RightsLookup
  readonly calls: Pick<Calls, 'call' | 'usage'>
  /** Calls as a client would, meta-tools included. */
  callAsClient(request: CallRequest): ReturnType<Calls['call']>
  adapters(caller: Caller): Adapters | null
  readonly files: FileOutlet
  /** True while servers connect for the first time. */
  arriving(): boolean
  /** The server that a tool name begins with, if its entry is invalid. */
  invalidServer(name: string, caller: Caller): string | undefined
}

/** Delay before the state is tried again. */
const RETRY_MS = 5_000
/** Maximum wait for servers that connect for the first time, and the interval of checking. */
const WAIT_MS = 3_000
const CHECK_MS = 250
/** Interval of checking whether other processes have stored anything. */
const DATA_CHECK_MS = 10_000

export type DeferredWork = ReturnType<typeof createDeferredWork>

/** Work that outlives the call that requested it: tasks, watchers, schedules, and remembered facts. */
export function createDeferredWork(options: DeferredWorkOptions) {
  const { log, lookUpRights, calls } = options
  const { clock, shared } = options.state
  const { execution } = options.config
  const instance = createProcessHeartbeat(shared, clock, log)
  const delivery = createDelivery({ adapters: options.adapters, channels: execution.outputChannels })
  const tasks = createTasks({
    lookUpRights,
    deliver: delivery.send,
    instance,
    alarms: shared.alarms('task'),
    call: options.callAsClient,
    present: (result, caller) => toMcpResult(result, options.files, caller),
    presentError: (error) => {
      const failure = isPegboardError(error) ? error.cause : error
      if (isProtocolFailure(failure)) return { error: toFailure(failure) }
      // The caller cannot correct a bug of the tool.
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

  /** Undefined if the caller lost its access. The call then fails with that error. */
  const withCurrentRights = <T>(who: StoredCaller, find: (caller: Caller) => T): T | undefined => {
    try {
      return find(refreshCaller(who, lookUpRights))
    } catch {
      return undefined
    }
  }
  const resolve = (who: StoredCaller, name: string) =>
    withCurrentRights(who, (caller) => options.view(caller).resolve(name))
  const lacksTool: LacksTool = (who, name) => (resolve(who, name)?.kind ?? 'found') !== 'found'
  const hasInvalidServer: LacksTool = (who, name) =>
    withCurrentRights(who, (caller) => options.invalidServer(name, caller)) !== undefined
  const toolOf = (who: StoredCaller, name: string): Tool | undefined => {
    const found = resolve(who, name)
    return found?.kind === 'found' ? found.tool.tool : undefined
  }
  const createWorkOptions = () => ({
    call: (request: CallRequest) => calls.call(request),
    lookUpRights,
    lacksTool,
    hasInvalidServer,
    store: shared.store(),
    clock,
    log,
    inbox,
    instance,
    delivery,
  })
  const watchers = once(() =>
    createWatchers({
      ...createWorkOptions(),
      volatileParts: (who, name) => toolOf(who, name)?.volatile ?? [],
      steady: shared.steady,
      alarms: shared.alarms('watcher', 'steady'),
    }),
  )
  const schedule = once(() =>
    createScheduler({
      ...createWorkOptions(),
      isIdempotent: (who, name) => toolOf(who, name)?.idempotent === true,
      key: shared.key,
      graceMs: execution.missedGraceMs,
      alarms: shared.alarms('job'),
    }),
  )
  const facts = once(() => createFacts({ store: shared.store, clock, hide: options.secrets.hide }))
  const schedules = execution.scheduler && execution.watchers

  const startedParts = new Set<Watchers | Scheduler>()
  let cancelRetry: (() => void) | undefined
  let stopped = false
  let lastError = ''
  let cancelDataCheck: (() => void) | undefined
  /** Other processes may begin tasks in a state folder that was empty when this process started. */
  function startWhenDataExists(): void {
    cancelDataCheck = clock.after(DATA_CHECK_MS, () => {
      if (!shared.mayHaveData) return startWhenDataExists()
      Promise.all([tasks.start(), inbox.start()]).catch((error: unknown) => {
        log.warn('cannot monitor tasks of other processes', { error: messageOf(error) })
        startWhenDataExists()
      })
    })
  }
  async function work(): Promise<void> {
    // Servers that connect for the first time need the processor, and planned work may need these servers.
    for (const until = clock.now() + WAIT_MS; options.arriving() && clock.now() < until; )
      await new Promise<void>((resolve) => clock.after(CHECK_MS, resolve))
    if (stopped) return
    try {
      if (shared.mayHaveData) await Promise.all([tasks.start(), inbox.start()])
      else startWhenDataExists()
      await calls.usage.start({ hasStored: shared.mayHaveData, table: () => shared.store().table('usage'), clock, log })
      if (!execution.watchers) return
      await instance.join()
      for (const part of [watchers(), ...(schedules ? [schedule()] : [])]) {
        if (startedParts.has(part)) continue
        await part.start()
        startedParts.add(part)
        if (stopped) return await part.stop()
      }
    } catch (error) {
      const why = messageOf(error)
      if (why !== lastError) log.error('scheduled work does not run, because the state is unavailable', { error: why })
      lastError = why
      cancelRetry = clock.after(RETRY_MS, () => void work())
    }
  }

  /** Starts no more work. Resolves when planned calls that run now have ended. */
  async function drain(): Promise<void> {
    stopped = true
    cancelRetry?.()
    cancelDataCheck?.()
    tasks.drain()
    await Promise.all([...startedParts].map((part) => part.stop()))
  }

  return {
    tasks,
    inbox,
    delivery,
    /** Parts that have tools; absent if the configuration disables them. */
    tools: { ...(execution.watchers ? { watchers } : {}), ...(schedules ? { schedule, facts } : {}) },
    /** Tasks of a caller for older clients, which see Pegboard as a server with the task extension. */
    tasksOf(caller: Caller): Endpoints {
      const answers = createTaskRelay({
        clock,
        ready: async () => ({ era: 'modern' }) as Connection,
        request: taskRequests(tasks, execution.tasks.resultTtlMs, caller),
        record: () => undefined,
      })
      return {
        request: (method, params, relay, signal) =>
          answers[method]?.(params, relay, signal) ?? Promise.reject(new ProtocolFailure(-32601, 'Method not found')),
      }
    },
    /** Status of a task, with its result or error if it has ended; `null` if the owner has no such task. */
    async taskState(owner: string, id: string): Promise<TaskState | null> {
      const task = await tasks.get(owner, id)
      if (!task) return null
      const { status, outcome } = task
      if (!outcome) return { status }
      return outcome.success ? { status, result: outcome.data } : { status, error: outcome.error }
    },
    factsOf(caller: Caller): FactStore {
      const describeFact = ({ id, text, at }: ListedFact) => ({ id, content: text, since: at })
      return {
        add: async (content) => describeFact(await facts().add(caller, content)),
        list: async () => (await facts().list(caller)).map(describeFact),
        forget: (id) => facts().forget(caller, id),
      }
    },
    /** The facts of a caller as text for a prompt; undefined if there are none. */
    async remembered(caller: Caller): Promise<string | undefined> {
      if (!schedules || !shared.mayHaveData) return undefined
      const listedFacts = await facts().list(caller)
      return listedFacts.length === 0 ? undefined : factsSection(listedFacts)
    },
    /** Starts, for a process that serves; see `App.work`. Retries if the state cannot be used. */
    work,
    drain,
    /** Stops running work. Results are kept. */
    stop: once(async (): Promise<void> => {
      await Promise.all([tasks.stop(), drain()])
    }),
    /** Lets other processes take over planned work. */
    async leave(): Promise<void> {
      await instance.leave().catch(() => undefined)
      instance.stop()
    },
  }
}
