import { ASK_METHODS, type Ask, refusedAsk, takesAsk } from '../core/asks.ts'
import type { Countdown } from '../core/countdown.ts'
import { messageOf } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import type { Message } from '../core/jsonrpc.ts'
import type { Relay } from '../core/tool.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * Requests and notifications a 2025-era server sends on its own. They do not say which call they belong to, and a
 * question shown to the wrong person is worse than none: they go to the caller only while every open call is of one
 * connection. A call without a way to be asked counts too: the question may be its.
 */
export interface Asks {
  /** A call begins; give the answer to `leave` when it ends. */
  enter(relay: Relay): Relay
  /** The time a call has, which stands still while its caller is asked. */
  limit(relay: Relay, limit: Countdown): void
  leave(relay: Relay): void
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

/**
 * @param attribution put before the text of a question, so that people know who asks
 * @param send writes the response to the server
 */
export function createAsks(
  allowed: readonly Ask[],
  attribution: string | undefined,
  send: (response: Message) => void,
): Asks {
  const open = new Map<Relay, number>()
  const limits = new Map<Relay, Countdown>()
  const asking = new Map<unknown, AbortController>()

  /** Callers who cannot be asked are only told apart by their call. */
  const connectionOf = (relay: Relay): object => relay.connection ?? relay.request ?? relay

  function only(): Relay | undefined {
    let found: Relay | undefined
    for (const relay of open.keys()) {
      if (found && connectionOf(relay) !== connectionOf(found)) return undefined
      found = relay
    }
    return found
  }

  async function relayed(method: string, params: Json, signal: AbortSignal): Promise<unknown> {
    const ask = ASK_METHODS[method] as Ask
    if (!allowed.includes(ask)) throw new ProtocolFailure(-32601, `${ask} is switched off for this server`)
    const relay = only()
    if (!relay?.request) return refusedAsk(method, 'there is no one caller to pass it to')
    if (!takesAsk(relay.clientCapabilities, method, params)) return refusedAsk(method, 'the client does not take it')
    // The time of a person is not the time of the tool.
    const resume = limits.get(relay)?.pause()
    return await relay.request(method, attributed(method, params, attribution), signal).finally(resume)
  }

  return {
    limit: (relay, limit) => limits.set(relay, limit),
    enter(relay) {
      open.set(relay, (open.get(relay) ?? 0) + 1)
      return relay
    },
    leave(relay) {
      const left = (open.get(relay) ?? 1) - 1
      if (left > 0) open.set(relay, left)
      else {
        open.delete(relay)
        limits.delete(relay)
      }
    },
    request({ id, method, params }) {
      if (id === undefined || method === undefined || !Object.hasOwn(ASK_METHODS, method)) return false
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
      const relay = only()
      relay?.notify?.(method, params)
      return relay ? relay.notify !== undefined : open.size > 0
    },
  }
}

function attributed(method: string, params: Json, attribution: string | undefined): Json {
  const { _meta, ...rest } = params
  const { progressToken: _theirs, ...meta } = (_meta ?? {}) as Record<string, unknown>
  const kept = Object.keys(meta).length > 0 ? { ...rest, _meta: meta } : rest
  if (attribution === undefined || method !== 'elicitation/create' || typeof params['message'] !== 'string') return kept
  return { ...kept, message: `${attribution}: ${params['message']}` }
}

function errorOf(error: unknown): NonNullable<Message['error']> {
  const { code, data } = error as { code?: unknown; data?: unknown }
  if (isProtocolFailure(error) || (typeof code === 'number' && Number.isInteger(code)))
    return { code: code as number, message: messageOf(error), ...(data === undefined ? {} : { data }) }
  return { code: -32603, message: 'The client did not answer' }
}
