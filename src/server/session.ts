import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Transport } from '@modelcontextprotocol/server'
import type { Clock } from '../core/clock.ts'
import type { Message } from '../core/jsonrpc.ts'
import type { Messages } from './body.ts'
import { type Refusal, refusal, refuse } from './door.ts'
import type { Pulse, Slots } from './events.ts'
import type { Served, ServerFactory } from './factory.ts'
import type { Lane } from './lane.ts'
import { createSessionTransport, type SessionTransport } from './streamable.ts'

export interface SessionOptions {
  readonly factory: ServerFactory
  readonly clock: Clock
  readonly pulse: Pulse
  readonly slots: Slots
  readonly maxSessions: number
  /** A session that heard nothing for this long, and has no request or stream open, ends. */
  readonly idleMs: number
}

/** The sessions of 2025-era clients. Bounded in number and in idle time; an id is worth nothing without its principal. */
export interface Sessions {
  /** Opens a session for `initialize`, or continues the one the request names. */
  post(req: IncomingMessage, res: ServerResponse, principal: string, body: Messages): Promise<void>
  /** GET: a stream for what belongs to no request. */
  listen(req: IncomingMessage, res: ServerResponse, principal: string): void
  /** DELETE: ends the session. */
  end(req: IncomingMessage, res: ServerResponse, principal: string): Promise<void>
  readonly size: number
  close(): Promise<void>
}

interface Session {
  readonly id: string
  readonly principal: string
  readonly transport: SessionTransport
  readonly lane: Lane | undefined
  lastSeenMs: number
}

/** 192 bits from the system's generator. */
export const newSessionId = (): string => randomBytes(24).toString('base64url')

export const tooManyStreams: Refusal = refusal(429, 'Too many open streams', { headers: { 'retry-after': '30' } })

export function createSessions(options: SessionOptions): Sessions {
  const { clock, idleMs } = options
  // Kept in the order of last use, so the idlest is always first.
  const sessions = new Map<string, Session>()
  let cancelSweep: (() => void) | undefined

  const touch = (session: Session): void => {
    session.lastSeenMs = clock.now()
    sessions.delete(session.id)
    sessions.set(session.id, session)
    cancelSweep ??= clock.after(idleMs, sweep)
  }

  function sweep(): void {
    cancelSweep = undefined
    const now = clock.now()
    for (const session of [...sessions.values()]) {
      if (now - session.lastSeenMs < idleMs) break
      if (session.transport.busy) touch(session)
      else void session.transport.close()
    }
    const idlest = first(sessions)
    if (idlest) cancelSweep ??= clock.after(Math.max(1, idlest.lastSeenMs + idleMs - now), sweep)
  }

  async function makeRoom(): Promise<void> {
    while (sessions.size >= options.maxSessions) {
      const victim = [...sessions.values()].find(({ transport }) => !transport.busy) ?? first(sessions)
      await victim?.transport.close()
    }
  }

  async function open(principal: string): Promise<Session> {
    await makeRoom()
    const id = newSessionId()
    const transport = createSessionTransport(id, options.pulse)
    const served = options.factory({ era: 'legacy', principal, sessionId: id })
    const lane = served.lane?.(transport.deliver)
    const session: Session = { id, principal, transport, lane, lastSeenMs: clock.now() }
    // At once, so that a burst of them is counted.
    touch(session)
    await connect(served, transport, () => {
      sessions.delete(id)
      lane?.close()
    })
    return session
  }

  /** The session a request names, or the answer it gets. Somebody else's session is as unknown as any. */
  function find(req: IncomingMessage, principal: string): Session | Refusal {
    const id = req.headers['mcp-session-id']
    if (id === undefined) return refusal(400, 'Bad request: the Mcp-Session-Id header is required; initialize first')
    const session = sessions.get(String(id))
    if (!session || session.principal !== principal) return refusal(404, 'Session not found', { code: -32001 })
    touch(session)
    return session
  }

  async function initialize(res: ServerResponse, principal: string, body: Messages): Promise<void> {
    const session = await open(principal)
    let answered = false
    const { send } = session.transport
    // A session that was refused is not kept: nobody was told of it.
    session.transport.send = async (message, sendOptions) => {
      await send(message, sendOptions)
      if (answered || 'method' in message) return
      answered = true
      session.transport.send = send
      if ('error' in message) return await session.transport.close()
      const { lane, transport } = session
      if (!lane) return
      lane.join(body.messages[0] as Message)
      transport.take = lane.take
    }
    session.transport.post(res, body.messages, body.batch)
  }

  return {
    async post(req, res, principal, body) {
      const initializes = body.messages.some(({ method }) => method === 'initialize')
      if (initializes && body.messages.length > 1)
        return refuse(res, refusal(400, 'Invalid request: initialize must be sent alone', { code: -32600 }))
      if (initializes && req.headers['mcp-session-id'] === undefined) return initialize(res, principal, body)
      const session = find(req, principal)
      if (!('transport' in session)) return refuse(res, session)
      if (initializes)
        return refuse(res, refusal(400, 'Invalid request: the session is initialized already', { code: -32600 }))
      session.transport.post(res, body.messages, body.batch)
    },
    listen(req, res, principal) {
      const session = find(req, principal)
      if (!('transport' in session)) return refuse(res, session)
      const free = options.slots.take(principal)
      if (!free) return refuse(res, tooManyStreams)
      res.once('close', () => {
        free()
        if (sessions.has(session.id)) touch(session)
      })
      session.transport.listen(res)
    },
    async end(req, res, principal) {
      const session = find(req, principal)
      if (!('transport' in session)) return refuse(res, session)
      await session.transport.close()
      res.end()
    },
    get size() {
      return sessions.size
    },
    async close() {
      cancelSweep?.()
      await Promise.all([...sessions.values()].map(({ transport }) => transport.close()))
    },
  }
}

/** Joins an instance to its transport. `gone` runs once, when either has ended; the instance is disposed of with it. */
export async function connect(served: Served, transport: Transport, gone: () => void): Promise<void> {
  const end = (): void => {
    gone()
    served.dispose()
  }
  try {
    await served.server.connect(transport)
  } catch (error) {
    end()
    throw error
  }
  const tell = transport.onclose
  transport.onclose = () => {
    try {
      tell?.()
    } finally {
      end()
    }
  }
}

const first = (sessions: ReadonlyMap<string, Session>): Session | undefined => sessions.values().next().value
