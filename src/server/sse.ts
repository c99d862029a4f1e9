import type { IncomingMessage, ServerResponse } from 'node:http'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/server'
import type { Message } from '../core/jsonrpc.ts'
import type { Messages } from './body.ts'
import { type Entrant, partyOf } from './caller.ts'
import { refusal, refuse } from './door.ts'
import { type Events, openEvents, type Pulse, type Slots } from './events.ts'
import type { ServerFactory } from './factory.ts'
import { createInFlight, IN_FLIGHT } from './in-flight.ts'
import { connect, newSessionId, tooManyStreams } from './session.ts'

export interface SseOptions {
  readonly factory: ServerFactory
  readonly pulse: Pulse
  readonly slots: Slots
  /** Where messages are posted to; told to the client on its stream. */
  readonly messagesPath: string
}

/** The HTTP+SSE transport of 2024: one stream to the client, POSTs from it. A session lives as long as its stream. */
export interface Sse {
  /** GET: opens the stream and the session. @param rest stands behind the path that is told for its POSTs */
  open(res: ServerResponse, entrant: Entrant, rest: string): Promise<void>
  /** POST: takes one message for the session named in the query; the answer goes out on the stream. */
  post(req: IncomingMessage, res: ServerResponse, entrant: Entrant, body: Messages): void
  readonly size: number
  close(): Promise<void>
}

interface Session {
  readonly party: string
  readonly principal: string
  readonly transport: SseTransport
  /** Whether the client has sent a message. */
  used: boolean
}

export function createSse({ factory, pulse, slots, messagesPath }: SseOptions): Sse {
  const sessions = new Map<string, Session>()

  async function open(res: ServerResponse, entrant: Entrant, rest: string): Promise<void> {
    let free = slots.take(entrant.principal)
    // Where everybody is let in, streams that nobody uses hold up no client that comes.
    const unused =
      free || entrant.named
        ? undefined
        : [...sessions.values()].find((one) => one.principal === entrant.principal && !one.used)
    if (unused) {
      await unused.transport.close()
      free = slots.take(entrant.principal)
    }
    if (!free) return refuse(res, tooManyStreams)
    res.once('close', free)
    const id = newSessionId()
    const served = factory({ era: 'legacy', entrant, sessionId: id, sse: true })
    const transport = createSseTransport(id, () => openEvents(res), pulse)
    await connect(served, transport, () => sessions.delete(id))
    // It may have left while the instance was made.
    if (res.destroyed) return transport.close()
    res.once('close', () => void transport.close())
    sessions.set(id, { party: partyOf(entrant), principal: entrant.principal, transport, used: false })
    transport.events().event('endpoint', `${messagesPath}${rest}?sessionId=${id}`)
  }

  return {
    open,
    post(req, res, entrant, { messages, batch }) {
      const id = new URLSearchParams((req.url ?? '').split('?')[1] ?? '').get('sessionId')
      if (!id) return refuse(res, refusal(400, 'Bad request: the sessionId parameter is required'))
      const session = sessions.get(id)
      if (!session || session.party !== partyOf(entrant))
        return refuse(res, refusal(404, 'Session not found', { code: -32001 }))
      if (batch)
        return refuse(res, refusal(400, 'Invalid request: batch not supported on this transport', { code: -32600 }))
      session.used = true
      res.statusCode = 202
      res.end('Accepted')
      for (const message of messages) session.transport.receive(message)
    },
    get size() {
      return sessions.size
    },
    async close() {
      await Promise.all([...sessions.values()].map(({ transport }) => transport.close()))
    },
  }
}

interface SseTransport extends Transport {
  /** The stream to the client, opened on first use. */
  events(): Events
  receive(message: Message): void
}

function createSseTransport(sessionId: string, openStream: () => Events, pulse: Pulse): SseTransport {
  let opened: Events | undefined
  let stopPulse: () => void = () => undefined
  let closed = false
  const inFlight = createInFlight()
  const events = (): Events => {
    if (!opened) {
      opened = openStream()
      stopPulse = pulse.add(opened.comment)
    }
    return opened
  }
  const transport: SseTransport = {
    sessionId,
    events,
    async start() {},
    receive(message) {
      if (inFlight.enters(message)) transport.onmessage?.(message as unknown as JSONRPCMessage)
      else events().send({ jsonrpc: '2.0', id: message.id, error: { code: -32600, message: IN_FLIGHT } })
    },
    async send(message) {
      inFlight.sent(message)
      if (closed || events().closed) throw new Error('The client has closed its stream')
      events().send(message)
    },
    async close() {
      if (closed) return
      closed = true
      stopPulse()
      opened?.end()
      transport.onclose?.()
    },
  }
  return transport
}
