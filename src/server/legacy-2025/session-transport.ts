import type { ServerResponse } from 'node:http'
import type { JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/server'
import type { Message } from '../../core/jsonrpc.ts'
import { type EventStream, openEventStream, type Pulse } from '../event-stream.ts'
import { HttpError } from '../http-error.ts'
import { writeMessage } from '../json-pieces.ts'
import { IN_FLIGHT } from '../request-ids.ts'
import type { ResumePoint, SessionStreams, Stream } from './event-log.ts'

/**
 * One 2025 session on Streamable HTTP, as a transport of the SDK. A POST is answered with plain JSON if there is nothing to
 * send but its answers, and becomes an event stream if another message comes first or the answer takes long.
 */
export interface SessionTransport extends Transport {
  /** Receives the messages of a POST. `res` gets the answers to the requests among them. */
  post(res: ServerResponse, messages: readonly Message[], batch: boolean): void
  /** Gets every message first; true if it has taken the message. */
  take?: ((message: Message) => boolean) | undefined
  /** The same as `send`, synchronously. @throws Error for a request if the client has no stream open */
  deliver(message: object, related?: string | number): void
  /**
   * Opens a stream for messages that belong to no request. The newest is used, because an older one may be broken.
   * @param lastEventId the last event that the client received
   */
  listen(res: ServerResponse, lastEventId?: string): void
  /** Continues the stream of a request after its connection broke. False if it is not of this session. */
  resume(res: ServerResponse, lastEventId: string): boolean
  /** Opens the stream of a request for events of another process. */
  begin(res: ServerResponse, lastEventId: string): EventStream
  readonly streams: SessionStreams
  /** True while a request waits for its answer or a stream is open. */
  readonly busy: boolean
  /** True while there is a stream for messages that belong to no request. */
  readonly listening: boolean
}

export interface SessionTransportOptions {
  /** Triggers comments that keep streams alive. */
  readonly pulse: Pulse
  /** Triggers the change from JSON to an event stream for calls that take long. */
  readonly soon: Pulse
  readonly streams: SessionStreams
  /** Whether the client accepts events without data, which tell it an id before the first message. */
  readonly primes: boolean
}

type Id = string | number

/** One POST and its answers. */
interface Exchange {
  readonly res: ServerResponse
  readonly batch: boolean
  readonly unanswered: Set<Id>
  readonly answers: object[]
  stream: Stream | undefined
  stopWaiting: () => void
}

export function createSessionTransport(sessionId: string, options: SessionTransportOptions): SessionTransport {
  const { pulse, streams, primes } = options
  const pending = new Map<Id, Exchange>()
  const sessionHeader = { 'mcp-session-id': sessionId }
  const { unrelated } = streams
  let closed = false

  /** Continues a stream on this response until that closes. @param from the last event that the client received */
  function continueStream(stream: Stream, res: ServerResponse, from?: ResumePoint): void {
    const events = begin(res, from?.id)
    stream.attach(events, from?.after)
    res.once('close', () => stream.detach(events))
  }

  function begin(res: ServerResponse, lastEventId?: string): EventStream {
    const events = openEventStream(res, sessionHeader)
    // It may break again before the next message, and clients do not repeat the id of an earlier connection.
    if (lastEventId !== undefined && primes) events.prime(lastEventId)
    res.once('close', pulse.add(events.comment))
    return events
  }

  const forget = (exchange: Exchange): void => {
    for (const id of exchange.unanswered) if (pending.get(id) === exchange) pending.delete(id)
    exchange.unanswered.clear()
    exchange.stopWaiting()
    exchange.stream?.drop()
  }

  function finish({ res, batch, answers, stream, stopWaiting }: Exchange): void {
    stopWaiting()
    if (stream) stream.end()
    // Every request was cancelled, so there is no answer.
    else if (answers.length === 0) openEventStream(res, sessionHeader).end()
    else {
      res.setHeader('content-type', 'application/json')
      res.setHeader('mcp-session-id', sessionId)
      if (batch) res.end(JSON.stringify(answers))
      else writeMessage(res, answers[0] as object)
    }
  }

  function settle(id: Id, answer: object): void {
    const exchange = pending.get(id)
    if (!exchange) return
    pending.delete(id)
    exchange.unanswered.delete(id)
    if (exchange.stream) exchange.stream.send(answer)
    else exchange.answers.push(answer)
    if (exchange.unanswered.size === 0) finish(exchange)
  }

  /** Ends the wait for the answer of a cancelled request. */
  function cancel(id: Id): void {
    const exchange = pending.get(id)
    if (!exchange) return
    pending.delete(id)
    exchange.unanswered.delete(id)
    if (exchange.unanswered.size > 0) return
    if (exchange.stream) forget(exchange)
    else finish(exchange)
  }

  function open(res: ServerResponse, ids: readonly Id[], batch: boolean): void {
    const exchange: Exchange = {
      res,
      batch,
      unanswered: new Set(ids),
      answers: [],
      stream: undefined,
      stopWaiting: () => undefined,
    }
    for (const id of ids) pending.set(id, exchange)
    let waited = false
    exchange.stopWaiting = (primes ? options.soon : pulse).add(() => {
      if (waited) keepAlive(exchange)
      waited = true
    })
    res.once('close', () => {
      // A disconnect does not cancel the call: the client may come back for the answer.
      if (!exchange.stream?.isResumable) forget(exchange)
    })
  }

  function upgrade(exchange: Exchange): Stream {
    if (exchange.stream) return exchange.stream
    exchange.stopWaiting()
    const stream = streams.open()
    exchange.stream = stream
    continueStream(stream, exchange.res)
    for (const answer of exchange.answers.splice(0)) stream.send(answer)
    return stream
  }

  /** Starts the event stream of a call that takes long. */
  function keepAlive(exchange: Exchange): void {
    const stream = upgrade(exchange)
    if (primes) stream.prime()
    else stream.comment()
  }

  const transport: SessionTransport = {
    sessionId,
    get busy() {
      return pending.size > 0 || unrelated.isAttached
    },
    get listening() {
      return unrelated.isAttached
    },
    async start() {},
    listen(res, lastEventId) {
      const found = lastEventId === undefined ? undefined : streams.find(lastEventId)
      if (typeof found === 'object') return continueStream(unrelated, res, found)
      continueStream(unrelated, res)
      if (primes) unrelated.prime()
    },
    resume(res, lastEventId) {
      const found = streams.find(lastEventId)
      if (found === undefined) return false
      if (found === 'over') endWithoutContent(res)
      else continueStream(found.stream, res, found)
      return true
    },
    begin,
    streams,
    post(res, messages, batch) {
      const ids = messages.filter(isRequest).map(({ id }) => id)
      const duplicateId = ids.find((id, at) => pending.has(id) || ids.indexOf(id) !== at)
      if (duplicateId !== undefined) throw new HttpError(400, IN_FLIGHT, { code: -32600, id: duplicateId })
      if (ids.length > 0) open(res, ids, batch)
      for (const message of messages) {
        if (!transport.take?.(message)) transport.onmessage?.(message as unknown as JSONRPCMessage)
        // Otherwise its POST would stay open forever.
        if (message.method === 'notifications/cancelled') cancel(message.params?.requestId as Id)
      }
      if (ids.length === 0) {
        res.statusCode = 202
        res.end()
      }
    },
    send: async (message: JSONRPCMessage, options?: TransportSendOptions) =>
      transport.deliver(message, options?.relatedRequestId),
    deliver(message, related) {
      if (!('method' in message)) return settle((message as Message).id as Id, message)
      const exchange = related === undefined ? undefined : pending.get(related)
      if (exchange) upgrade(exchange).send(message)
      else if (related === undefined && unrelated.isAttached) unrelated.send(message)
      // The sender must not wait for an answer to a lost request.
      else if ('id' in message) throw new Error('The client has no open stream for questions')
      // The client may reconnect and receive it then.
      else if (related === undefined && unrelated.isResumable) unrelated.send(message)
    },
    async close() {
      if (closed) return
      closed = true
      for (const id of [...pending.keys()])
        settle(id, { jsonrpc: '2.0', id, error: { code: -32000, message: 'The session has ended' } })
      streams.close()
      transport.onclose?.()
    },
  }
  return transport
}

/** Tells a client that there is nothing left to resume. */
export function endWithoutContent(res: ServerResponse): void {
  res.statusCode = 204
  res.end()
}

const isRequest = (message: Message): message is Message & { readonly id: Id } =>
  message.method !== undefined && message.id !== undefined
