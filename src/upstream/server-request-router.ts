import type { Clock } from '../core/clock.ts'
import type { Countdown } from '../core/countdown.ts'
import { messageOf } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import type { Message } from '../core/jsonrpc.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import {
  MAX_QUESTIONS,
  refuseServerRequest,
  SERVER_REQUEST_METHODS,
  type ServerRequestKind,
  supportsServerRequest,
} from '../core/server-requests.ts'
import { ShortLivedMap } from '../core/short-lived-map.ts'
import type { Relay } from '../core/tool.ts'
import type { Origin } from './fast-requests.ts'
import { createPerClientQueue, type Habits } from './per-client-queue.ts'
import { relayedAsk } from './relayed-ask.ts'
import { relatedTask, removeTaskId } from './server-tasks.ts'

/**
 * Routes a server's own requests and notifications to the right client. With Streamable HTTP, messages on a call's
 * stream belong to that call. Other messages (stdio, HTTP+SSE, GET stream) do not tell which call they belong to, and
 * a question shown to the wrong person is worse than none: they go to the caller only if all open calls belong to one
 * connection, including calls that cannot be asked. At a server that sends requests, calls of different clients are
 * therefore serialized. Messages with a task id go to whoever waits for that task.
 */
export type ServerRequestRouter = ReturnType<typeof createServerRequestRouter>

export interface ServerRequestRouterOptions {
  /** Shared by all connections of a server. */
  readonly habits: Habits
  readonly clock: Clock
  /** Called when a question was not relayed, with the reason. */
  refused(method: string, why: string): void
}

/** @param serverId shown with every question @param send writes the response to the server */
export function createServerRequestRouter(
  allowed: readonly ServerRequestKind[],
  serverId: string,
  send: (response: Message) => void,
  { habits, clock, refused }: ServerRequestRouterOptions,
) {
  const callQueue = createPerClientQueue(habits, clock)
  /** Callers waiting for each task's result, latest last. */
  const tasks = new Map<string, readonly Relay[]>()
  const limits = new ShortLivedMap<Relay, Countdown>()
  const openRequests = new Map<unknown, AbortController>()
  const counts = new ShortLivedMap<Relay, number>()

  const callerOf = (origin: Origin | undefined): Relay | undefined => (origin ? origin.relay : callQueue.findCaller())

  /** `undefined` if several principals wait for tasks with the same id. */
  function waitingFor(task: string): readonly Relay[] | undefined {
    const waiting = tasks.get(task) ?? []
    return waiting.every(({ principal }) => principal === waiting[0]?.principal) ? waiting : undefined
  }

  /** @returns why there is none, as a text */
  function findClientToAsk(params: Json, origin: Origin | undefined): Relay | string {
    const task = relatedTask(params)
    if (task !== undefined) {
      const waiting = waitingFor(task)
      return waiting ? (waiting.at(-1) ?? NOBODY) : SAME_ID
    }
    return callerOf(origin) ?? (!origin && callQueue.size > 1 ? SEVERAL : NOBODY)
  }

  async function relayRequest(
    method: string,
    params: Json,
    origin: Origin | undefined,
    signal: AbortSignal,
  ): Promise<unknown> {
    const ask = SERVER_REQUEST_METHODS[method] as ServerRequestKind
    if (!allowed.includes(ask)) throw new ProtocolFailure(-32601, `${ask} is switched off for this server`)
    let question: Json
    try {
      question = relayedAsk(method, params, serverId)
    } catch (error) {
      refused(method, messageOf(error))
      throw error
    }
    const refuse = (why: string): ReturnType<typeof refuseServerRequest> => {
      refused(method, why)
      return refuseServerRequest(method, why)
    }
    const relay = findClientToAsk(params, origin)
    if (typeof relay === 'string') return refuse(relay)
    const count = (counts.get(relay) ?? 0) + 1
    if (count > MAX_A_CALL[ask] || openRequests.size > MAX_OPEN) return refuse('the server sent too many requests')
    counts.set(relay, count)
    if (!relay.request || !supportsServerRequest(relay.clientCapabilities, method, params))
      return refuse('the client does not support it')
    // The person's time does not count towards the tool's timeout.
    const resume = limits.get(relay)?.pause()
    // If a stream names the call, no other call can be mistaken for it.
    const resumeQueue = origin ? undefined : callQueue.askPerson(relay)
    return await relay.request(method, question, signal).finally(resumeQueue).finally(resume)
  }

  return {
    /** Registers the call's timeout, which is paused while its caller is asked. */
    limit: (relay: Relay, limit: Countdown): void => void limits.set(relay, limit),
    /**
     * Registers a call; it may begin when the promise resolves, or at once if there is none. Pass the relay to `leave`
     * when it ends.
     * @param task whose result the call waits for
     */
    enter(relay: Relay, signal?: AbortSignal, task?: string): Promise<void> | undefined {
      if (task === undefined) return callQueue.enter(relay, signal)
      tasks.set(task, [...(tasks.get(task) ?? []), relay])
      return undefined
    },
    leave(relay: Relay, task?: string): void {
      if (task === undefined) {
        if (!callQueue.leave(relay)) return
      } else {
        const remaining = (tasks.get(task) ?? []).filter((one) => one !== relay)
        if (remaining.length > 0) tasks.set(task, remaining)
        else tasks.delete(task)
      }
      limits.delete(relay)
      counts.delete(relay)
    },
    /** Handles a server request. @returns false if it is not one that can be relayed */
    request({ id, method, params }: Message, origin?: Origin): boolean {
      if (id === undefined || method === undefined || !Object.hasOwn(SERVER_REQUEST_METHODS, method)) return false
      if (!origin) habits.asks = true
      const abort = new AbortController()
      openRequests.set(id, abort)
      const answer = (body: Pick<Message, 'result'> | Pick<Message, 'error'>): void => {
        // A cancelled request gets no answer.
        if (openRequests.delete(id)) send({ jsonrpc: '2.0', id, ...body })
      }
      relayRequest(method, params ?? {}, origin, abort.signal).then(
        (result) => answer({ result }),
        (error: unknown) => answer({ error: errorOf(error) }),
      )
      return true
    },
    /** The server has cancelled a request. */
    cancelled(requestId: unknown): void {
      openRequests.get(requestId)?.abort()
      openRequests.delete(requestId)
    },
    /** Passes a notification to its caller, or drops it if that is unknown. @returns false if no call is open */
    notify(method: string, params: Json, origin?: Origin): boolean {
      const task = relatedTask(params)
      const waiting = task === undefined ? [] : waitingFor(task)
      if (waiting === undefined) return true
      const relay = waiting.at(-1) ?? callerOf(origin)
      relay?.notify?.(method, removeTaskId(params))
      if (relay) return relay.notify !== undefined
      return origin ? origin.isOver : callQueue.size > 0
    },
  }
}

const MAX_OPEN = 32
/** An agent may sample more often than a person can be asked. */
const MAX_A_CALL: Readonly<Record<ServerRequestKind, number>> = {
  elicitation: MAX_QUESTIONS,
  sampling: 100,
  roots: 100,
}

const NOBODY = 'no client waits for it'
const SAME_ID = 'several clients wait for a task with this id'
const SEVERAL = 'calls of several clients run at the server, and it does not name the call'

function errorOf(error: unknown): NonNullable<Message['error']> {
  const { code, data } = error as { code?: unknown; data?: unknown }
  if (isProtocolFailure(error) || (typeof code === 'number' && Number.isInteger(code)))
    return { code: code as number, message: messageOf(error), ...(data === undefined ? {} : { data }) }
  return { code: -32603, message: 'The client did not answer' }
}
