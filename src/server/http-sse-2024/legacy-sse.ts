import type { IncomingMessage, ServerResponse } from 'node:http'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/server'
import type { Message } from '../../core/jsonrpc.ts'
import { type EventStream, openEventStream, type Pulse, type StreamSlots } from '../event-stream.ts'
import { HttpError } from '../http-error.ts'
import { type Identity, identityKey, labelOf } from '../identity.ts'
import type { Messages } from '../request-body.ts'
import { createRequestIds, IN_FLIGHT } from '../request-ids.ts'
import { connectServer, newSessionId, type SdkInstance, type ServerFactory } from '../server-factory.ts'

export interface SseOptions {
  readonly factory: ServerFactory
  readonly pulse: Pulse
  readonly slots: StreamSlots
  /** Path for POSTs, sent to the client as the first event. */
  readonly messagesPath: string
  /** Called when `initialize` is answered, with name and version of the client. */
  onOpen(client: string, principal: string): void
}

/** The HTTP+SSE transport of 2024: one stream to the client, POSTs from it. A session lives as long as its stream. */
export type Sse = ReturnType<typeof createSse>

interface Session {
  readonly key: string
  readonly principal: string
  readonly transport: SseTransport
  used: boolean
}

export function createSse({ factory, pulse, slots, messagesPath, onOpen }: SseOptions) {
  const sessions = new Map<string, Session>()

  /** GET: opens the stream and the session. @param rest added to `messagesPath`, such as `/team` */
  async function open(res: ServerResponse, identity: Identity, rest: string): Promise<void> {
    const { principal, named } = identity
    // Without tokens, all clients share one principal: unused streams must not block new clients.
    if (!named && !slots.hasRoom(principal))
      await [...sessions.values()].find((one) => one.principal === principal && !one.used)?.transport.close()
    res.once('close', slots.take(principal))
    const id = newSessionId()
    const transport = createSseTransport(
      id,
      () => openEventStream(res),
      pulse,
      (opening) => onOpen(labelOf(opening.params?.['clientInfo']), identity.principal),
    )
    const served = factory({ era: 'legacy', identity, sessionId: id, send: transport.deliver })
    transport.session = served.session
    await connectServer(served, transport, () => sessions.delete(id))
    // The client may have disconnected meanwhile.
    if (res.destroyed) return transport.close()
    res.once('close', () => void transport.close())
    sessions.set(id, { key: identityKey(identity), principal: identity.principal, transport, used: false })
    transport.events().event('endpoint', `${messagesPath}${rest}?sessionId=${id}`)
  }

  return {
    open,
    /** POST: receives one message for the session that the query names. The answer is sent on the stream. */
    post(req: IncomingMessage, res: ServerResponse, identity: Identity, { messages, batch }: Messages): void {
      const id = new URLSearchParams((req.url ?? '').split('?')[1] ?? '').get('sessionId')
      if (!id) throw new HttpError(400, 'Bad request: the sessionId parameter is required')
      const session = sessions.get(id)
      if (!session || session.key !== identityKey(identity))
        throw new HttpError(404, 'Session not found', { code: -32001 })
      if (batch) throw new HttpError(400, 'Invalid request: batch not supported on this transport', { code: -32600 })
      session.used = true
      res.statusCode = 202
      res.end('Accepted')
      for (const message of messages) session.transport.receive(message)
    },
    get size(): number {
      return sessions.size
    },
    async close(): Promise<void> {
      await Promise.all([...sessions.values()].map(({ transport }) => transport.close()))
    },
  }
}

interface SseTransport extends Transport {
  /** Gets every message first, once `initialize` is answered. */
  session?: SdkInstance['session'] | undefined
  /** The same as `send`, synchronously. @throws Error for a request after the client has disconnected */
  deliver(message: object): void
  /** The stream to the client, opened on first use. */
  events(): EventStream
  receive(message: Message): void
}

function createSseTransport(
  sessionId: string,
  openStream: () => EventStream,
  pulse: Pulse,
  opens: (opening: Message) => void,
): SseTransport {
  let opened: EventStream | undefined
  let stopPulse: () => void = () => undefined
  let closed = false
  const inFlight = createRequestIds()
  let opening: Message | undefined
  let isOpen = false
  const events = (): EventStream => {
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
      if (inFlight.tryAdd(message)) {
        if (message.method === 'initialize') {
          opening = message
          transport.session?.introduce(message)
        }
        if (!isOpen || !transport.session?.take(message)) transport.onmessage?.(message as unknown as JSONRPCMessage)
      } else events().send({ jsonrpc: '2.0', id: message.id, error: { code: -32600, message: IN_FLIGHT } })
    },
    deliver(message) {
      inFlight.removeAnswered(message)
      if (closed || events().closed) {
        if ('method' in message && 'id' in message) throw createClosedError()
        return
      }
      events().send(message)
      if (isOpen || !opening || !('result' in message) || (message as Message).id !== opening.id) return
      isOpen = true
      opens(opening)
    },
    async send(message) {
      if (closed || events().closed) throw createClosedError()
      transport.deliver(message)
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

const createClosedError = (): Error => new Error('The client has closed its stream')
