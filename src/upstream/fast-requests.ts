import type { Clock } from '../core/clock.ts'
import { type Countdown, createCountdown } from '../core/countdown.ts'
import { attributeData, attributeError, attributeErrors } from '../core/error-attribution.ts'
import { isPegboardError, PegboardError, resultTooLarge } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import type { Message } from '../core/jsonrpc.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import { rawBytes } from '../core/raw-result.ts'
import { sanitize } from '../core/sanitize.ts'
import { ShortLivedMap } from '../core/short-lived-map.ts'
import type { Relay } from '../core/tool.ts'
import { truncate } from '../core/truncate.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { abortReason, networkReason, pegboardCause, sessionLost, statusOf } from './error-reasons.ts'
import type { SendOptions, UpstreamTransport } from './transport.ts'

export interface FastRequest {
  /** Total time, which progress does not extend. */
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
  /** Called for every progress notification, in order and before the result. */
  readonly onProgress?: ((params: Json) => void) | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly relay?: Relay | undefined
  /** Called with the running timeout, so that it can be paused. */
  readonly onLimit?: ((limit: Countdown) => void) | undefined
}

/** The request on whose stream a message arrived. Without a relay it is Pegboard's own, or already finished. */
export interface Origin {
  readonly relay: Relay | undefined
  readonly isOver: boolean
}

export interface FastRequestEvents {
  /** @param origin absent: the stream does not belong to a single request */
  notification(method: string, params: Json, origin: Origin | undefined): void
  /** A request from the server; never passed to the SDK. */
  request(message: Message, origin: Origin | undefined): void
  /** Number of messages dropped in the last second. */
  flooded(dropped: number): void
  closed(reason: string): void
  /** Everything else, which the SDK client handles. */
  rest(message: Message): void
  error(error: Error): void
}

/**
 * Pegboard's own requests on a transport shared with the SDK client. The SDK costs 100 µs per round trip and delivers
 * progress after the result; here a request is a string and its answer a map lookup. Ids are `p:<n>`, which the SDK
 * never uses.
 */
export interface FastRequests {
  open(): Promise<void>
  request(method: string, params: Json, options: FastRequest): Promise<Json>
  send(message: Message, options?: SendOptions): Promise<void> | undefined
}

interface Pending {
  readonly number: number
  readonly isCall: boolean
  readonly isList: boolean
  readonly resolve: (result: Json) => void
  readonly reject: (error: unknown) => void
  readonly onProgress: ((params: Json) => void) | undefined
  readonly relay: Relay | undefined
  readonly settle: () => void
}

/** The server has forgotten the session (HTTP 404). Nothing ran, so the call can be repeated in a new session. */
export const SESSION_LOST = 'session lost'

/**
 * @param name of the server, for messages
 * @param cancelMeta `_meta` for cancellations, for 2026-era servers
 * @param tell makes the reason of a closed connection safe for clients
 */
export function createFastRequests(
  name: string,
  transport: UpstreamTransport,
  clock: Clock,
  events: FastRequestEvents,
  cancelMeta: () => Json | undefined,
  tell: (reason: string) => string,
): FastRequests {
  const pending = new ShortLivedMap<number, Pending>()
  let lastNumber = 0
  // Ids of open SDK requests; servers may turn a number into a string.
  const openIds = new Set<string>()
  const messageRate = createRate(clock, events.flooded)
  let closed: string | undefined

  const unavailable = (reason: string, cause?: unknown): PegboardError =>
    new PegboardError('E_UPSTREAM_UNAVAILABLE', `${name} is not connected: ${tell(reason)}.`, { cause })

  const pendingCall = (id: unknown): Pending | undefined => (isOwnId(id) ? pending.get(numberOf(id)) : undefined)

  /** @returns false if the request had ended before */
  const end = (call: Pending): boolean => {
    if (!pending.delete(call.number)) return false
    call.settle()
    return true
  }

  const fail = (call: Pending, error: unknown): boolean => {
    if (!end(call)) return false
    call.reject(error)
    return true
  }

  const failAll = (reason: string): void => {
    closed = reason
    for (const call of [...pending.values()]) fail(call, unavailable(reason))
    events.closed(reason)
  }

  const receiveAnswer = (message: Message): void => {
    const { id, error, result } = message
    if (!isOwnId(id)) {
      if (!openIds.delete(String(id))) return
      sanitize(message)
      events.rest(message)
      return
    }
    const call = pendingCall(id)
    // A late answer to a cancelled or timed-out request.
    if (!call) return
    end(call)
    // Raw results were scanned on arrival. Definitions are not sanitized, because hidden text in them leads to
    // quarantine.
    if (isRecord(result) && !rawBytes(result) && !call.isList) {
      sanitize(result)
      attributeErrors(name, result)
    }
    if (error !== undefined) call.reject(failureOf(name, error))
    else if (!isRecord(result))
      call.reject(new PegboardError('E_UPSTREAM_PROTOCOL', `${name} answered without a result.`))
    // Clients ignore such an answer and would wait forever.
    else if (result['_meta'] !== undefined && !isRecord(result['_meta']))
      call.reject(new PegboardError('E_UPSTREAM_PROTOCOL', `${name} answered with a _meta that is no object.`))
    else call.resolve(result)
  }

  const originOf = (on: string | undefined): Origin | undefined => {
    if (on === undefined) return undefined
    const call = pendingCall(on)
    return { relay: call?.relay, isOver: isOwnId(on) && call === undefined }
  }

  const receive = (message: Message, on?: string): void => {
    const { id, method } = message
    if (method === undefined) {
      receiveAnswer(message)
      return
    }
    if (message.params) sanitize(message.params)
    const params = message.params ?? {}
    const call =
      id === undefined && method === 'notifications/progress' ? pendingCall(params['progressToken']) : undefined
    if (call) {
      call.onProgress?.(params)
      return
    }
    // One notification stands for a whole list, so the last one must not be dropped.
    if (!method.endsWith('/list_changed') && !messageRate.take()) return
    if (id === undefined) {
      events.notification(method, params, originOf(on))
      if (isForSdk(method, params)) events.rest(message)
    } else events.request(message, originOf(on))
  }

  /** The SDK needs only notifications for its own subscriptions; parsing a flood of logs would be slow. */
  const isForSdk = (method: string, { requestId }: Json): boolean =>
    method.startsWith('notifications/subscriptions/') ||
    (method === 'notifications/cancelled' && openIds.has(String(requestId)))

  const receiveOversize = (id: string | undefined, bytes: number, why: string | undefined): void => {
    const call = pendingCall(id)
    if (!call) {
      const cause = why === undefined ? '' : `: it ${why}`
      events.error(new Error(`a message of ${bytes} bytes was dropped${cause}`))
      return
    }
    const message = `${name} answered with ${why === undefined ? `${bytes} bytes` : `what ${why}`}.`
    // `resultTooLarge` names the limit of results, which does not apply to other answers.
    const isLong = call.isCall && why === undefined
    fail(call, isLong ? resultTooLarge(message) : new PegboardError('E_TOO_LARGE', message))
  }

  /** Sends a pending request, and fails it if it cannot be sent. */
  const post = (
    call: Pending,
    method: string,
    params: Json,
    { onProgress, headers }: FastRequest,
    stream: AbortController | undefined,
  ): void => {
    const id = idOf(call)
    const body = onProgress
      ? { ...params, _meta: { ...(params['_meta'] as Json | undefined), progressToken: id } }
      : params
    try {
      const sent = transport.send(
        { jsonrpc: '2.0', id, method, params: body },
        stream && {
          requestSignal: stream.signal,
          onRequestStreamEnd: () => fail(call, unavailable('it ended the answer early')),
          ...(headers ? { headers } : {}),
        },
      )
      sent?.catch((error: unknown) => fail(call, sendFailure(name, error, transport)))
    } catch (error) {
      fail(call, isPegboardError(error) ? unavailable(error.message) : error)
    }
  }

  return {
    open: () =>
      transport.open({
        message: receive,
        closed: failAll,
        error: events.error,
        flooded: () => messageRate.isSpent(),
        awaited() {
          if (openIds.size > 0 || [...pending.values()].some(({ isCall }) => !isCall)) return 'lists'
          return pending.size > 0 ? 'calls' : 'nothing'
        },
        oversize: receiveOversize,
      }),
    send(message, options) {
      if (message.id !== undefined && message.method !== undefined) openIds.add(String(message.id))
      return transport.send(message, options)
    },
    request(method, params, options) {
      const { signal, timeoutMs } = options
      if (closed !== undefined) return Promise.reject(unavailable(closed))
      if (signal?.aborted) return Promise.reject(abortReason(signal))
      return new Promise<Json>((resolve, reject) => {
        const stream = transport.kind === 'http' ? new AbortController() : undefined
        const abandon = (error: unknown, reason: string): void => {
          if (!fail(call, error)) return
          // On 2026-era HTTP the only way to cancel is to close the stream; elsewhere the server is notified.
          if (!stream || cancelMeta() === undefined) cancel(idOf(call), reason)
          stream?.abort()
        }
        const onAbort = (): void => abandon(abortReason(signal as AbortSignal), 'cancelled')
        const onTimeout = (): void =>
          abandon(
            new PegboardError('E_TIMEOUT', `${name} did not answer ${method} within ${timeoutMs} ms.`),
            'timed out',
          )
        const limit = createCountdown(timeoutMs, onTimeout, clock)
        options.onLimit?.(limit)
        signal?.addEventListener('abort', onAbort, { once: true })
        const call: Pending = {
          number: ++lastNumber,
          isCall: method === 'tools/call',
          isList: method.endsWith('/list'),
          resolve,
          reject,
          onProgress: options.onProgress,
          relay: options.relay,
          settle() {
            limit.stop()
            signal?.removeEventListener('abort', onAbort)
          },
        }
        pending.set(call.number, call)
        post(call, method, params, options, stream)
      })
    },
  }

  function cancel(requestId: string, reason: string): void {
    if (closed !== undefined) return
    const _meta = cancelMeta()
    try {
      transport
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

// Ids of requests, see `FastRequests`.
const idOf = ({ number }: Pending): string => `p:${number}`
export const isOwnId = (id: unknown): id is string => typeof id === 'string' && id.startsWith('p:')
const numberOf = (id: string): number => Number(id.slice(2))

/** How many bytes of an oversized message to search for its id, at each end. */
const ENDS = 1_024

/** The id of the request that an oversized message answers, from its first and last kilobyte. */
export function answeredId(head: Buffer, tail: Buffer): string | undefined {
  const ends = `${tail.subarray(-ENDS).toString('latin1')}\n${head.subarray(0, ENDS).toString('latin1')}`
  return /"id"\s*:\s*"(p:\d+)"/.exec(ends)?.[1]
}

/**
 * Messages per second that a server may send besides answers and progress: more than any needs, less than Pegboard
 * can handle.
 */
const MAX_A_SECOND = 1_000

function createRate(clock: Clock, onDropped: (dropped: number) => void) {
  let available = MAX_A_SECOND
  let at = clock.now()
  let dropped = 0

  function isSpent(): boolean {
    const now = clock.now()
    available = Math.min(MAX_A_SECOND, available + ((now - at) * MAX_A_SECOND) / 1_000)
    at = now
    return available < 1
  }

  return {
    isSpent,
    take() {
      if (!isSpent()) {
        available--
        return true
      }
      if (dropped++ === 0)
        clock.after(1_000, () => {
          onDropped(dropped)
          dropped = 0
        })
      return false
    },
  }
}

/** Clients show a model the whole message of an error; unlike a result, it cannot be kept. */
const MAX_MESSAGE = 16_000
const shortMessage = (text: string): string =>
  text.length > MAX_MESSAGE ? `${truncate(text, MAX_MESSAGE)}… (${text.length - MAX_MESSAGE} more characters)` : text

function failureOf(serverId: string, error: unknown): ProtocolFailure {
  if (!isRecord(error)) return new ProtocolFailure(-32603, 'unreadable error')
  sanitize(error)
  const { code, message, data } = error
  attributeData(serverId, data)
  return new ProtocolFailure(
    typeof code === 'number' ? code : -32603,
    typeof message === 'string' ? attributeError(serverId, shortMessage(message)) : '',
    data,
  )
}

/**
 * Converts a failed HTTP request. JSON-RPC errors in the body are kept; anything else means that the server is
 * unavailable.
 */
function sendFailure(name: string, error: unknown, transport: UpstreamTransport): unknown {
  if (sessionLost(error, transport.sessionId !== undefined))
    return new PegboardError('E_UPSTREAM_UNAVAILABLE', `${name} lost the session.`, { cause: SESSION_LOST })
  const cause = pegboardCause(error)
  if (cause !== undefined)
    return new PegboardError(cause.code, `${name}: ${cause.message.replace(/\.$/, '')}.`, {
      hint: cause.hint,
      class: cause.class,
      cause,
    })
  const data = (error as { data?: { text?: unknown } }).data
  const status = statusOf(error)
  if (status !== undefined && status < 500 && typeof data?.text === 'string') {
    const body = tryParseJson(data.text)
    if (isRecord(body) && isRecord(body['error'])) return failureOf(name, body['error'])
  }
  if (status === 401 || status === 403)
    return new PegboardError(
      'E_UPSTREAM_UNAVAILABLE',
      `${name} rejected the request (HTTP ${status}). Check its headers.`,
      { cause: error, class: status === 401 ? 'login' : 'permission' },
    )
  const code = (error as { code?: unknown }).code
  if (status === undefined && (code === 'CLIENT_HTTP_UNEXPECTED_CONTENT' || error instanceof SyntaxError))
    return new PegboardError('E_UPSTREAM_PROTOCOL', `The response of ${name} is not MCP.`, { cause: error })
  const reason = status === undefined ? networkReason(error) : `HTTP ${status}`
  return new PegboardError('E_UPSTREAM_UNAVAILABLE', `${name} cannot be reached: ${reason}.`, {
    cause: error,
    retryAfterMs: transport.retryAfterMs,
  })
}
