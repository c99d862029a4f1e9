import type { ServerResponse } from 'node:http'
import type { JSONRPCMessage, Transport, TransportSendOptions } from '@modelcontextprotocol/server'
import type { Message } from '../core/jsonrpc.ts'
import { refusal, refuse } from './door.ts'
import { type Events, openEvents, type Pulse } from './events.ts'
import { IN_FLIGHT } from './in-flight.ts'
import { piecesOf } from './pieces.ts'

/**
 * One 2025-era session on Streamable HTTP, as the SDK sees it. A POST is answered with plain JSON when its answers are
 * all there is to say, and becomes an event stream when something must be said before, or the answer takes long.
 */
export interface SessionTransport extends Transport {
  /** Delivers the messages of a POST; `res` gets the answers to those that are requests. */
  post(res: ServerResponse, messages: readonly Message[], batch: boolean): void
  /** Asked first about every message; true when it has taken it. */
  take?: (message: Message) => boolean
  /** The same as `send`, at once. @throws Error for a question that nobody hears */
  deliver(message: object, related?: string | number): void
  /** Opens a stream for what belongs to no request. The newest is used; an older one may be a dead connection. */
  listen(res: ServerResponse): Events
  /** True while a request waits for its answer or a stream is open. */
  readonly busy: boolean
  /** True while there is a stream for what belongs to no request. */
  readonly listening: boolean
}

type Id = string | number

/** What is owed to one POST. */
interface Exchange {
  readonly res: ServerResponse
  readonly batch: boolean
  readonly owed: Set<Id>
  readonly answers: object[]
  events: Events | undefined
  stopPulse: () => void
}

export function createSessionTransport(sessionId: string, pulse: Pulse): SessionTransport {
  const pending = new Map<Id, Exchange>()
  const streams: Events[] = []
  const sessionHeader = { 'mcp-session-id': sessionId }
  let closed = false

  const streamOf = (exchange: Exchange): Events => {
    exchange.events ??= openEvents(exchange.res, sessionHeader)
    return exchange.events
  }

  const forget = (exchange: Exchange): void => {
    for (const id of exchange.owed) if (pending.get(id) === exchange) pending.delete(id)
    exchange.owed.clear()
    exchange.stopPulse()
  }

  function finish(exchange: Exchange): void {
    exchange.stopPulse()
    // Without an answer every request was cancelled: the client expects nothing but an end.
    if (exchange.events || exchange.answers.length === 0) streamOf(exchange).end()
    else {
      exchange.res.setHeader('content-type', 'application/json')
      exchange.res.setHeader('mcp-session-id', sessionId)
      if (exchange.batch) exchange.res.end(JSON.stringify(exchange.answers))
      else writeAnswer(exchange.res, exchange.answers[0] as object)
    }
  }

  function settle(id: Id, answer: object | undefined): void {
    const exchange = pending.get(id)
    if (!exchange) return
    pending.delete(id)
    exchange.owed.delete(id)
    if (answer) {
      if (exchange.events) exchange.events.send(answer)
      else exchange.answers.push(answer)
    }
    if (exchange.owed.size === 0) finish(exchange)
  }

  function open(res: ServerResponse, ids: readonly Id[], batch: boolean): void {
    const exchange: Exchange = {
      res,
      batch,
      owed: new Set(ids),
      answers: [],
      events: undefined,
      stopPulse: () => undefined,
    }
    for (const id of ids) pending.set(id, exchange)
    let waited = false
    exchange.stopPulse = pulse.add(() => {
      if (waited) upgrade(exchange).comment()
      waited = true
    })
    res.once('close', () => forget(exchange))
  }

  function upgrade(exchange: Exchange): Events {
    const events = streamOf(exchange)
    for (const answer of exchange.answers.splice(0)) events.send(answer)
    return events
  }

  function listen(res: ServerResponse): Events {
    const events = openEvents(res, sessionHeader)
    streams.push(events)
    const stopPulse = pulse.add(events.comment)
    res.once('close', () => {
      stopPulse()
      streams.splice(streams.indexOf(events), 1)
    })
    return events
  }

  const transport: SessionTransport = {
    sessionId,
    get busy() {
      return pending.size > 0 || streams.length > 0
    },
    get listening() {
      return streams.length > 0
    },
    async start() {},
    listen,
    post(res, messages, batch) {
      const ids = messages.filter(isRequest).map(({ id }) => id)
      const twice = ids.find((id, at) => pending.has(id) || ids.indexOf(id) !== at)
      if (twice !== undefined) return refuse(res, refusal(400, IN_FLIGHT, { code: -32600, id: twice }))
      if (ids.length > 0) open(res, ids, batch)
      for (const message of messages) {
        if (!transport.take?.(message)) transport.onmessage?.(message as unknown as JSONRPCMessage)
        // No answer will come for it, so its POST would stay open for ever.
        if (message.method === 'notifications/cancelled') settle(message.params?.requestId as Id, undefined)
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
      const events = exchange ? upgrade(exchange) : related === undefined ? streams.at(-1) : undefined
      if (events) events.send(message)
      // A lost notification is lost; a lost question must not be waited for.
      else if ('id' in message) throw new Error('The client has no stream open to be asked on')
    },
    async close() {
      if (closed) return
      closed = true
      for (const id of [...pending.keys()])
        settle(id, { jsonrpc: '2.0', id, error: { code: -32000, message: 'The session has ended' } })
      for (const events of [...streams]) events.end()
      transport.onclose?.()
    },
  }
  return transport
}

/** Writes a message as the body, and ends it. */
export function writeAnswer(res: ServerResponse, message: object): void {
  const pieces = piecesOf(message)
  const [only] = pieces
  if (pieces.length === 1) return void res.end(only)
  res.setHeader(
    'content-length',
    pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0),
  )
  res.cork()
  for (const piece of pieces) res.write(piece)
  res.uncork()
  res.end()
}

const isRequest = (message: Message): message is Message & { readonly id: Id } =>
  message.method !== undefined && message.id !== undefined
