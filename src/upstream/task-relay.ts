import { raceAbort } from '../core/abort.ts'
import { digestOf } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import { createDeferred } from '../core/deferred.ts'
import { setNewest } from '../core/drop-oldest.ts'
import { groupBy } from '../core/group-by.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import {
  addInputRound,
  addQuestions,
  type InputCount,
  isQuestion,
  refuseServerRequest,
  supportsServerRequest,
  toModernServerRequest,
} from '../core/server-requests.ts'
import { acceptsTasks, isOver, TASKS, toModernTask } from '../core/task-protocol.ts'
import type { Relay, RequestOwner } from '../core/tool.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { EndpointsHost } from './server-endpoints.ts'
import { removeTaskId, runsTasks } from './server-tasks.ts'

type Answer = (params: Json, relay: Relay, signal: AbortSignal) => Promise<Json>

export interface TaskRelayOptions extends Pick<EndpointsHost, 'ready' | 'request'> {
  readonly clock: Clock
  /** Called with each task seen, in the format of the extension. */
  record(task: Json): void
}

/** How long questions of a task are kept for a client that does not collect them, and for how many tasks. */
const KEPT_MS = 5 * 60_000
const MAX_WATCHED = 256
/** Number of tasks whose questions are counted. */
const MAX_COUNTED = 1_024
/** How long a requested question may take to arrive. */
const ARRIVES_MS = 1_000
const POLL = { least: 100, usual: 1_000, most: 10_000 } as const

/** A task result awaited on behalf of a client that can only be asked in a response. */
interface Watch {
  readonly who: string
  readonly questions: Map<string, { readonly ask: unknown; resolve(answer: unknown): void }>
  readonly abort: AbortController
  changed: () => void
  cancelExpiry: () => void
}

/** What a task has asked one principal, in all requests about the task. */
interface QuestionLog {
  readonly digests: Set<string>
  questions: number
}

/**
 * Handles requests about tasks of a server of either era, in the format of the extension. `tasks/result`, which the
 * extension does not have, waits for the result and asks the client the task's questions.
 */
export function createTaskRelay({ clock, ready, request, record }: TaskRelayOptions): Readonly<Record<string, Answer>> {
  const watched = new Map<string, Watch>()
  const counted = new Map<string, QuestionLog>()

  /** The oldest tasks are forgotten. */
  function questionLogOf(taskId: string, { principal = '' }: Pick<Relay, 'principal'>): QuestionLog {
    const key = JSON.stringify([principal, taskId])
    return setNewest(counted, key, counted.get(key) ?? { digests: new Set(), questions: 0 }, MAX_COUNTED)
  }

  /** Counts the questions that were not seen before. @throws PegboardError E_UPSTREAM_PROTOCOL over the limit */
  function countQuestions(questionLog: QuestionLog, requests: Json): void {
    const questions = Object.entries(requests).filter(([, request]) => isQuestion(request))
    const fresh = questions.map(digestOf).filter((digest) => !questionLog.digests.has(digest))
    questionLog.questions = addQuestions(questionLog.questions, fresh.length)
    for (const digest of fresh) questionLog.digests.add(digest)
  }

  /** @throws ProtocolFailure -32602 if the server has no tasks */
  async function eraOf(signal: AbortSignal, who: RequestOwner): Promise<'legacy' | 'modern'> {
    const { era, capabilities } = await ready(signal, who)
    if (era === 'legacy' && !runsTasks(capabilities)) throw new ProtocolFailure(-32602, 'There is no such task')
    return era
  }

  async function get(params: Json, relay: Relay, signal: AbortSignal): Promise<Json> {
    if ((await eraOf(signal, relay)) === 'modern') {
      const task = await request('tasks/get', params, withTaskSupport(relay), signal)
      record(task)
      const { result, inputRequests } = task
      if (isRecord(inputRequests)) countQuestions(questionLogOf(String(params['taskId']), relay), inputRequests)
      return isRecord(result) ? { ...task, result: removeTaskId(result) } : task
    }
    const { taskId } = params
    const task = toModernTask(await request('tasks/get', { taskId }, relay, signal))
    record(task)
    return acceptsTasks(relay.clientCapabilities) ? await addDetails(task, relay, signal) : task
  }

  /** Adds what the extension reports with a task and the older revision only during another request. */
  async function addDetails(task: Json, relay: Relay, signal: AbortSignal): Promise<Json> {
    const taskId = String(task['taskId'])
    const { status } = task
    if (status === 'completed' || status === 'failed') return await ended(task, relay, signal)
    if (status !== 'input_required' && !watched.has(taskId)) return task
    const watch = watched.get(taskId) ?? begin(taskId, relay)
    if (!watch) return task
    restartExpiry(taskId, watch)
    if (status === 'input_required' && watch.questions.size === 0) {
      const arrived = new Promise<void>((resolve) => {
        watch.changed = resolve
      })
      await waitAtMost(ARRIVES_MS, arrived, undefined, clock)
    }
    if (watch.questions.size === 0) return { ...task, status: 'working' }
    const inputRequests = Object.fromEntries([...watch.questions].map(([key, { ask }]) => [key, ask]))
    return { ...task, status: 'input_required', inputRequests }
  }

  async function ended(task: Json, relay: Relay, signal: AbortSignal): Promise<Json> {
    try {
      const result = await request('tasks/result', { taskId: task['taskId'] }, relay, signal)
      // A failed tool has a result that says so.
      return { ...task, status: 'completed', result: removeTaskId(result) }
    } catch (error) {
      if (!isProtocolFailure(error)) throw error
      const { code, message, data } = error
      return { ...task, status: 'failed', error: { code, message, ...(data === undefined ? {} : { data }) } }
    }
  }

  /** Waits for the result, during which the server sends its questions. */
  function begin(taskId: string, { clientCapabilities, principal: who = '', session }: Relay): Watch | undefined {
    if (watched.size >= MAX_WATCHED && !makeRoom(who)) return undefined
    const watch: Watch = {
      who,
      questions: new Map(),
      abort: new AbortController(),
      changed: () => undefined,
      cancelExpiry: () => undefined,
    }
    watched.set(taskId, watch)
    let questionCount = 0
    const relay: Relay = {
      meta: {},
      principal: who,
      session,
      clientCapabilities,
      connection: watch,
      request: (method, params, signal) =>
        new Promise((resolve, reject) => {
          const key = `${method.split('/', 1)[0]}-${++questionCount}`
          const questionLog = questionLogOf(taskId, relay)
          if (isQuestion({ method })) questionLog.questions = addQuestions(questionLog.questions, 1)
          signal?.addEventListener('abort', () => watch.questions.delete(key) && reject(signal.reason), { once: true })
          watch.abort.signal.addEventListener('abort', () => reject(watch.abort.signal.reason), { once: true })
          watch.questions.set(key, { ask: toModernServerRequest(method, params), resolve })
          watch.changed()
        }),
    }
    const onEnd = (): void => {
      watch.cancelExpiry()
      watch.changed()
      if (watched.get(taskId) === watch) watched.delete(taskId)
    }
    // The next request for the task gets the result.
    request('tasks/result', { taskId }, relay, watch.abort.signal).then(onEnd, onEnd)
    return watch
  }

  /**
   * Removes the latest entry of the principal with the most entries.
   * @returns false if no other principal has clearly more entries than this one
   */
  function makeRoom(who: string): boolean {
    const tasksOf = groupBy(watched.keys(), (taskId) => watched.get(taskId)?.who)
    const most = [...tasksOf.values()].reduce((one, other) => (other.length > one.length ? other : one))
    const own = tasksOf.get(who) ?? []
    if (most.length <= own.length + 1) return false
    end(most.at(-1) as string)
    return true
  }

  function restartExpiry(taskId: string, watch: Watch): void {
    watch.cancelExpiry()
    watch.cancelExpiry = clock.after(KEPT_MS, () => end(taskId))
  }

  function end(taskId: string): void {
    const watch = watched.get(taskId)
    watched.delete(taskId)
    watch?.cancelExpiry()
    watch?.abort.abort(new ProtocolFailure(-32603, 'Nobody answered in time'))
  }

  async function update(params: Json, relay: Relay, signal: AbortSignal): Promise<Json> {
    if ((await eraOf(signal, relay)) === 'modern')
      return await request('tasks/update', params, withTaskSupport(relay), signal)
    const { taskId, inputResponses = relay.inputResponses } = params
    // Answered as for an unknown task, because the question may have been cancelled.
    const watch = watched.get(String(taskId))
    if (!watch || !isRecord(inputResponses)) return {}
    for (const [key, answer] of Object.entries(inputResponses)) {
      watch.questions.get(key)?.resolve(answer)
      watch.questions.delete(key)
    }
    return {}
  }

  async function cancel(params: Json, relay: Relay, signal: AbortSignal): Promise<Json> {
    const { taskId } = params
    if ((await eraOf(signal, relay)) === 'modern') {
      const answer = await request('tasks/cancel', params, withTaskSupport(relay), signal)
      record({ taskId, status: 'cancelled' })
      return answer
    }
    record(toModernTask(await cancelOlder({ taskId }, relay, signal)))
    end(String(taskId))
    return {}
  }

  /** The older revision cannot cancel a finished task; in the extension that has no effect. */
  async function cancelOlder(params: Json, relay: Relay, signal: AbortSignal): Promise<Json> {
    try {
      return await request('tasks/cancel', params, relay, signal)
    } catch (error) {
      if (!isProtocolFailure(error)) throw error
      const task = await request('tasks/get', params, relay, signal)
      if (isOver(task['status'])) return task
      throw error
    }
  }

  async function result(params: Json, relay: Relay, signal: AbortSignal): Promise<Json> {
    const { taskId } = params
    if ((await eraOf(signal, relay)) === 'legacy') {
      const answer = await request('tasks/result', { taskId }, relay, signal)
      record({ taskId, status: 'completed' })
      return answer
    }
    const answered = new Set<string>()
    let count: InputCount = {}
    for (;;) {
      const task = await get({ taskId }, relay, signal)
      if (task['status'] === 'completed' && isRecord(task['result'])) return task['result']
      if (isOver(task['status'])) throw failureOf(task)
      const { inputRequests, pollIntervalMs } = task
      const fresh = Object.entries(asRecord(inputRequests)).filter(([key]) => !answered.has(key))
      if (fresh.length > 0) {
        count = addInputRound(count, Object.fromEntries(fresh))
        const answers = await Promise.all(fresh.map(async ([key, ask]) => [key, await askClient(ask, relay, signal)]))
        for (const [key] of fresh) answered.add(key)
        const inputResponses = Object.fromEntries(answers)
        await request('tasks/update', { taskId, inputResponses }, withTaskSupport(relay), signal)
      } else await pause(typeof pollIntervalMs === 'number' ? pollIntervalMs : POLL.usual, signal)
    }
  }

  async function pause(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = createDeferred<void>()
    const cancel = clock.after(Math.min(Math.max(ms, POLL.least), POLL.most), resolve)
    await raceAbort(promise, signal).finally(cancel)
  }

  return { 'tasks/get': get, 'tasks/update': update, 'tasks/cancel': cancel, 'tasks/result': result }
}

/** Sends a question of the newer revision to a client as a request. */
async function askClient(ask: unknown, relay: Relay, signal: AbortSignal): Promise<unknown> {
  const { method, params } = asRecord(ask)
  if (typeof method !== 'string') throw new ProtocolFailure(-32603, 'The task sent an unknown request')
  if (!relay.request || !supportsServerRequest(relay.clientCapabilities, method, params))
    return await refuseServerRequest(method, 'the client does not support it')
  return await relay.request(method, params, signal).catch(() => {
    throw new ProtocolFailure(-32603, `The client did not answer ${method}`)
  })
}

function failureOf({ status, error, statusMessage }: Json): ProtocolFailure {
  if (isRecord(error) && typeof error['code'] === 'number')
    return new ProtocolFailure(error['code'], String(error['message'] ?? ''), error['data'])
  return new ProtocolFailure(-32603, `The task was ${status}${statusMessage ? `: ${statusMessage}` : ''}`)
}

/** A client of the older revision supports tasks if it requests one; then Pegboard acts as the extension requires. */
export const withTaskSupport = (relay: Relay): Relay => {
  if (acceptsTasks(relay.clientCapabilities)) return relay
  const { extensions } = relay.clientCapabilities
  return {
    ...relay,
    clientCapabilities: {
      ...relay.clientCapabilities,
      extensions: { ...asRecord(extensions), [TASKS]: {} },
    },
  }
}
