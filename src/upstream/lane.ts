import type { Clock } from '../core/clock.ts'
import { type Countdown, createCountdown } from '../core/countdown.ts'
import { offEnd, onEnd, type Stop } from '../core/ending.ts'
import { isPegboardError, PegboardError, resultTooLarge } from '../core/errors.ts'
import { ProtocolFailure } from '../core/failure.ts'
import type { Message } from '../core/jsonrpc.ts'
import { createNumbered } from '../core/numbered.ts'
import { rawBytes } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import { sanitize } from '../core/sanitize.ts'
import { networkReason, pegboardCause, sessionLost, statusOf } from './reasons.ts'
import type { SendOptions, Wire } from './wire.ts'

type Json = Readonly<Record<string, unknown>>

export interface LaneRequest {
  /** Total time; progress does not extend it. */
  readonly timeoutMs: number
  readonly signal?: Stop | undefined
  /** Every progress notification, in the order the server sent them, all before the result. */
  readonly onProgress?: ((params: Json) => void) | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Gets the running time limit, to halt it while somebody else's time passes. */
  readonly onLimit?: ((limit: Countdown) => void) | undefined
}

export interface LaneEvents {
  notification(method: string, params: Json): void
  /** A request of the server. The SDK never sees one. */
  request(message: Message): void
  /** So many messages of the last second were left out. */
  flooded(dropped: number): void
  closed(reason: string): void
  /** Everything else: what the SDK client waits for. */
  rest(message: Message): void
  error(error: Error): void
}

/**
 * Our own requests on a wire the SDK client shares. The SDK costs 100 µs a round trip and delivers progress after the
 * result; here a request is one string and its answer one map look-up. Ids are `p:<n>`, which the SDK never uses.
 */
export interface Lane {
  open(): Promise<void>
  request(method: string, params: Json, options: LaneRequest): Promise<Json>
  send(message: Message, options?: SendOptions): Promise<void> | undefined
  readonly inFlight: number
}

interface Pending {
  number: number
  readonly isCall: boolean
  readonly isList: boolean
  readonly resolve: (result: Json) => void
  readonly reject: (error: unknown) => void
  readonly onProgress: ((params: Json) => void) | undefined
  readonly settle: () => void
}

/** The server forgot our session (HTTP 404): nothing ran, and a new session may repeat the call. */
export const SESSION_LOST = 'session lost'

/**
 * @param name of the server, for messages
 * @param cancelMeta `_meta` of the cancellation of a request, for 2026-era servers
 */
export function createLane(
  name: string,
  wire: Wire,
  clock: Clock,
  events: LaneEvents,
  cancelMeta: () => Json | undefined = () => undefined,
): Lane {
  const pending = createNumbered<Pending>()
  // What the SDK asked and has no answer to; servers may turn a number into a string.
  const asked = new Set<string>()
  const limit = createRate(clock, events.flooded)
  let closed: string | undefined

  const unavailable = (reason: string, cause?: unknown): PegboardError =>
    new PegboardError(
      'E_UPSTREAM_UNAVAILABLE',
      `${name} is not connected: ${reason}.`,
      cause === undefined ? {} : { cause },
    )

  const failAll = (reason: string): void => {
    closed = reason
    for (const call of pending.values()) {
      pending.delete(call.number)
      call.settle()
      call.reject(unavailable(reason))
    }
    events.closed(reason)
  }

  const answer = (id: string, message: Message): void => {
    const call = pending.get(numberOf(id))
    // Late answers to what was cancelled or timed out.
    if (!call) return
    pending.delete(call.number)
    call.settle()
    const { error, result } = message
    // Bytes were looked at when they came. Definitions are judged as they are: what they hide keeps them out.
    if (isRecord(result) && !rawBytes(result) && !call.isList) sanitize(result)
    if (error !== undefined) call.reject(failureOf(error))
    else if (!isRecord(result))
      call.reject(new PegboardError('E_UPSTREAM_PROTOCOL', `${name} answered without a result.`))
    // To clients such an answer is no message at all: they would wait for ever.
    else if (result['_meta'] !== undefined && !isRecord(result['_meta']))
      call.reject(new PegboardError('E_UPSTREAM_PROTOCOL', `${name} answered with a _meta that is no object.`))
    else call.resolve(result)
  }

  const receive = (message: Message): void => {
    const { id, method } = message
    if (method === undefined) {
      if (typeof id === 'string' && id.startsWith('p:')) answer(id, message)
      else if (asked.delete(String(id))) {
        sanitize(message)
        events.rest(message)
      }
      return
    }
    if (message.params) sanitize(message.params)
    const params = message.params ?? {}
    if (id === undefined && method === 'notifications/progress') {
      const token = params['progressToken']
      const call = typeof token === 'string' && token.startsWith('p:') ? pending.get(numberOf(token)) : undefined
      if (call) {
        call.onProgress?.(params)
        return
      }
    }
    // One word for a whole list: the last of them must not be the one that is left out.
    if (!method.endsWith('/list_changed') && !limit.take()) return
    if (id !== undefined) {
      events.request(message)
      return
    }
    events.notification(method, params)
    // The SDK only needs what its own subscriptions hang on; a flood of logs need not pass its parsers.
    if (method.startsWith('notifications/subscriptions/')) events.rest(message)
    else if (method === 'notifications/cancelled' && asked.has(String(params['requestId']))) events.rest(message)
  }

  return {
    open: () =>
      wire.open({
        message: receive,
        closed: failAll,
        error: events.error,
        flooded: () => limit.isSpent(),
        onlyCalls: () => asked.size === 0 && [...pending.values()].every(({ isCall }) => isCall),
        oversize(id, bytes) {
          const call = id === undefined ? undefined : pending.get(numberOf(id))
          if (!call) return events.error(new Error(`a message of ${bytes} bytes was dropped`))
          pending.delete(call.number)
          call.settle()
          const message = `${name} answered with ${bytes} bytes.`
          // What is kept of an answer follows from how long a result may be.
          call.reject(call.isCall ? resultTooLarge(message) : new PegboardError('E_TOO_LARGE', message))
        },
      }),
    send(message, options) {
      if (message.id !== undefined && message.method !== undefined) asked.add(String(message.id))
      return wire.send(message, options)
    },
    get inFlight() {
      return pending.size
    },
    request(method, params, options) {
      const { signal } = options
      if (closed !== undefined) return Promise.reject(unavailable(closed))
      if (signal?.aborted) return Promise.reject(abortReason(signal))
      return new Promise<Json>((resolve, reject) => {
        const stream = wire.streamPerRequest ? new AbortController() : undefined
        const drop = (error: unknown): boolean => {
          if (!pending.delete(call.number)) return false
          settle()
          reject(error)
          return true
        }
        const abandon = (error: unknown, reason: string): void => {
          if (!drop(error)) return
          // Modern HTTP has no other way to cancel than the end of the stream; everywhere else the server is told.
          if (!stream || cancelMeta() === undefined) cancel(`p:${call.number}`, reason)
          stream?.abort()
        }
        const onAbort = (): void => abandon(abortReason(signal as Stop), 'cancelled')
        const limit = createCountdown(
          options.timeoutMs,
          () =>
            abandon(
              new PegboardError('E_TIMEOUT', `${name} did not answer ${method} within ${options.timeoutMs} ms.`),
              'timed out',
            ),
          clock,
        )
        options.onLimit?.(limit)
        const settle = (): void => {
          limit.stop()
          if (signal) offEnd(signal, onAbort)
        }
        if (signal) onEnd(signal, onAbort)
        const call: Pending = {
          number: 0,
          isCall: method === 'tools/call',
          isList: method.endsWith('/list'),
          resolve,
          reject,
          onProgress: options.onProgress,
          settle,
        }
        call.number = pending.add(call)
        const id = `p:${call.number}`
        const body = options.onProgress
          ? { ...params, _meta: { ...(params['_meta'] as Json | undefined), progressToken: id } }
          : params
        try {
          const sent = wire.send(
            { jsonrpc: '2.0', id, method, params: body },
            stream && {
              requestSignal: stream.signal,
              onRequestStreamEnd: () => drop(unavailable('it ended the answer early')),
              ...(options.headers ? { headers: options.headers } : {}),
            },
          )
          sent?.catch((error: unknown) => drop(sendFailure(name, error, wire)))
        } catch (error) {
          drop(isPegboardError(error) ? unavailable(error.message) : error)
        }
      })
    },
  }

  function cancel(requestId: string, reason: string): void {
    if (closed !== undefined) return
    const _meta = cancelMeta()
    try {
      wire
        .send({
          jsonrpc: '2.0',
          method: 'notifications/cancelled',
          params: { requestId, reason, ...(_meta ? { _meta } : {}) },
        })
        ?.catch((error: unknown) => events.error(error as Error))
    } catch (error) {
      events.error(error as Error)
    }
  }
}

const numberOf = (id: string): number => Number(id.slice(2))

/** What a server may send a second beside answers and progress of calls: more than any needs, less than we can read. */
const MAX_A_SECOND = 1_000

interface Rate {
  take(): boolean
  isSpent(): boolean
}

function createRate(clock: Clock, told: (dropped: number) => void): Rate {
  let left = MAX_A_SECOND
  let at = clock.now()
  let dropped = 0

  function isSpent(): boolean {
    const now = clock.now()
    left = Math.min(MAX_A_SECOND, left + ((now - at) * MAX_A_SECOND) / 1_000)
    at = now
    return left < 1
  }

  return {
    isSpent,
    take() {
      if (!isSpent()) {
        left--
        return true
      }
      if (dropped++ === 0)
        clock.after(1_000, () => {
          told(dropped)
          dropped = 0
        })
      return false
    },
  }
}

const abortReason = (signal: Stop): unknown =>
  isPegboardError(signal.reason) ? signal.reason : new PegboardError('E_CANCELLED', 'The call was cancelled.')

function failureOf(error: unknown): ProtocolFailure {
  if (!isRecord(error)) return new ProtocolFailure(-32603, 'unreadable error')
  sanitize(error)
  const { code, message, data } = error
  return new ProtocolFailure(typeof code === 'number' ? code : -32603, typeof message === 'string' ? message : '', data)
}

/** A request an HTTP endpoint refused. JSON-RPC errors in the body stay what they are; the rest is unavailability. */
function sendFailure(name: string, error: unknown, wire: Wire): unknown {
  if (sessionLost(error, wire.sessionId !== undefined))
    return new PegboardError('E_UPSTREAM_UNAVAILABLE', `${name} forgot the session.`, { cause: SESSION_LOST })
  const own = pegboardCause(error)
  if (own !== undefined)
    return new PegboardError(own.code, `${name}: ${own.message.replace(/\.$/, '')}.`, { hint: own.hint, cause: own })
  const data = (error as { data?: { text?: unknown } }).data
  const status = statusOf(error)
  if (status !== undefined && status < 500 && typeof data?.text === 'string') {
    const body = parseBody(data.text)
    if (isRecord(body) && isRecord(body['error'])) return failureOf(body['error'])
  }
  if (status === 401 || status === 403)
    return new PegboardError('E_UPSTREAM_UNAVAILABLE', `${name} refuses us (HTTP ${status}); check its headers.`, {
      cause: error,
      retryable: false,
    })
  const code = (error as { code?: unknown }).code
  if (status === undefined && (code === 'CLIENT_HTTP_UNEXPECTED_CONTENT' || error instanceof SyntaxError))
    return new PegboardError('E_UPSTREAM_PROTOCOL', `${name} answered with something that is not MCP.`, {
      cause: error,
    })
  const reason = status === undefined ? networkReason(error) : `HTTP ${status}`
  const { retryAfterMs } = wire
  return new PegboardError('E_UPSTREAM_UNAVAILABLE', `${name} cannot be reached: ${reason}.`, {
    cause: error,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
