import { ASK_METHODS, type Ask, refusedAsk, takesAsk } from '../core/asks.ts'
import type { Clock } from '../core/clock.ts'
import type { Countdown } from '../core/countdown.ts'
import type { Stop } from '../core/ending.ts'
import { messageOf } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import { createFew } from '../core/few.ts'
import type { Message } from '../core/jsonrpc.ts'
import type { Relay } from '../core/tool.ts'
import { createAlone, type Habits } from './alone.ts'
import { relayedAsk } from './relayed-ask.ts'
import { relatedTask } from './tasks.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * Requests and notifications a 2025-era server sends on its own. They do not say which call they belong to, and a
 * question shown to the wrong person is worse than none: they go to the caller only while every open call is of one
 * connection. A call without a way to be asked counts too: the question may be its. At a server that asks, calls of
 * different clients are therefore kept apart. What is asked for a task says so, and goes to whoever waits for its result.
 */
export interface Asks {
  /**
   * A call begins, when the promise says so where there is one; give its relay to `leave` when it ends.
   * @param task the task whose result it waits for
   */
  enter(relay: Relay, signal?: Stop, task?: string): Promise<void> | undefined
  /** The time a call has, which stands still while its caller is asked. */
  limit(relay: Relay, limit: Countdown): void
  leave(relay: Relay, task?: string): void
  /** Answers a request of the server, or says `false` when it is none of these. */
  request(message: Message): boolean
  /** The server takes a question back. */
  cancelled(requestId: unknown): void
  /**
   * Passes a notification to the caller, or to nobody while several callers have calls open. `false` when it belongs
   * to no client's call.
   */
  notify(method: string, params: Json): boolean
}

export interface AsksOptions {
  /** Shared by all connections of a server. */
  readonly habits?: Habits
  /** Without it no call waits for another. */
  readonly clock?: Clock
  /** A question that nobody was asked, and why. */
  readonly refused?: (method: string, why: string) => void
}

/**
 * @param server its name, which every question carries
 * @param send writes the response to the server
 */
export function createAsks(
  allowed: readonly Ask[],
  server: string,
  send: (response: Message) => void,
  { habits = { asks: false }, clock, refused }: AsksOptions = {},
): Asks {
  const alone = createAlone(habits, clock)
  const tasks = new Map<string, Relay>()
  const limits = createFew<Relay, Countdown>()
  const asking = new Map<unknown, AbortController>()
  /** How much was asked in each open call. */
  const counts = new Map<Relay, number>()

  async function relayed(method: string, params: Json, signal: AbortSignal): Promise<unknown> {
    const ask = ASK_METHODS[method] as Ask
    if (!allowed.includes(ask)) throw new ProtocolFailure(-32601, `${ask} is switched off for this server`)
    let question: Json
    try {
      question = relayedAsk(method, params, server)
    } catch (error) {
      refused?.(method, messageOf(error))
      throw error
    }
    const task = relatedTask(params)
    const relay = task === undefined ? alone.only() : tasks.get(task)
    const refuse = (why: string): ReturnType<typeof refusedAsk> => {
      refused?.(method, why)
      return refusedAsk(method, why)
    }
    if (!relay) return refuse(task === undefined && alone.size > 1 ? SEVERAL : 'nobody waits for it')
    const count = (counts.get(relay) ?? 0) + 1
    if (count > MAX_A_CALL || asking.size > MAX_OPEN) return refuse('it asks too much')
    counts.set(relay, count)
    if (!relay.request || !takesAsk(relay.clientCapabilities, method, params))
      return refuse('the client does not take it')
    // The time of a person is not the time of the tool.
    const resume = limits.get(relay)?.pause()
    const back = alone.away(relay)
    const asked = relay.request(method, question, signal)
    return await asked.finally(back).finally(resume)
  }

  return {
    limit: (relay, limit) => limits.set(relay, limit),
    enter(relay, signal, task) {
      if (task === undefined) return alone.enter(relay, signal)
      tasks.set(task, relay)
      return undefined
    },
    leave(relay, task) {
      if (task === undefined) {
        if (!alone.leave(relay)) return
        limits.delete(relay)
        counts.delete(relay)
        return
      }
      if (tasks.get(task) === relay) tasks.delete(task)
      limits.delete(relay)
      counts.delete(relay)
    },
    request({ id, method, params }) {
      if (id === undefined || method === undefined || !Object.hasOwn(ASK_METHODS, method)) return false
      habits.asks = true
      const abort = new AbortController()
      asking.set(id, abort)
      const answer = (body: Pick<Message, 'result'> | Pick<Message, 'error'>): void => {
        // One that was taken back is not answered.
        if (asking.delete(id)) send({ jsonrpc: '2.0', id, ...body })
      }
      relayed(method, params ?? {}, abort.signal).then(
        (result) => answer({ result }),
        (error: unknown) => answer({ error: errorOf(error) }),
      )
      return true
    },
    cancelled(requestId) {
      asking.get(requestId)?.abort()
      asking.delete(requestId)
    },
    notify(method, params) {
      const relay = alone.only()
      relay?.notify?.(method, params)
      return relay ? relay.notify !== undefined : alone.size > 0
    },
  }
}

/** A person sees each of them. */
const MAX_OPEN = 32
const MAX_A_CALL = 100

const SEVERAL = 'calls of several clients run at the server, and it does not say which one it is of'

function errorOf(error: unknown): NonNullable<Message['error']> {
  const { code, data } = error as { code?: unknown; data?: unknown }
  if (isProtocolFailure(error) || (typeof code === 'number' && Number.isInteger(code)))
    return { code: code as number, message: messageOf(error), ...(data === undefined ? {} : { data }) }
  return { code: -32603, message: 'The client did not answer' }
}
