import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Transport } from '@modelcontextprotocol/server'
import type { Clock } from '../core/clock.ts'
import type { Message } from '../core/jsonrpc.ts'
import { hasBatches, revisionFor } from '../core/revisions.ts'
import type { Messages } from './body.ts'
import { type Entrant, partyOf } from './caller.ts'
import { type Refusal, refusal, refuse } from './door.ts'
import type { Pulse, Slots } from './events.ts'
import type { Served, ServerFactory } from './factory.ts'
import type { Lane } from './lane.ts'
import { heard, joinOthers, type KeptSession, type Roaming, replay } from './roaming.ts'
import { createSessionTransport, type SessionTransport } from './streamable.ts'

export interface SessionOptions {
  readonly factory: ServerFactory
  readonly clock: Clock
  readonly pulse: Pulse
  readonly slots: Slots
  readonly maxSessions: number
  /** A session that heard nothing for this long, and has no request or stream open, ends. */
  readonly idleMs: number
  /** Where sessions are shared with other processes. */
  readonly roaming?: Roaming | undefined
  /** A session was opened: how the client calls itself, and whose it is. */
  onOpen?(client: string, principal: string): void
}

/** The sessions of 2025-era clients. Bounded in number and in idle time; an id is worth nothing without its principal and profile. */
export interface Sessions {
  /** Opens a session for `initialize`, or continues the one the request names. */
  post(req: IncomingMessage, res: ServerResponse, entrant: Entrant, body: Messages): Promise<void>
  /** GET: a stream for what belongs to no request. */
  listen(req: IncomingMessage, res: ServerResponse, entrant: Entrant): Promise<void>
  /** DELETE: ends the session. */
  end(req: IncomingMessage, res: ServerResponse, entrant: Entrant): Promise<void>
  readonly size: number
  /** Ends those that were opened with this token, which holds no more. */
  revoke(token: string): Promise<void>
  close(): Promise<void>
}

interface Session {
  readonly id: string
  readonly entrant: Entrant
  readonly party: string
  readonly transport: SessionTransport
  readonly lane: Lane | undefined
  readonly revision: string
  lastSeenMs: number
  /** When it was last written for other processes. */
  keptMs: number
  /** Its opening, while other processes do not know it. */
  alone?: Message | undefined
}

/** 192 bits from the system's generator. */
export const newSessionId = (): string => randomBytes(24).toString('base64url')

/** How a client calls itself. */
function clientOf(opening: Message | undefined): string {
  const { name, version } = (opening?.params?.['clientInfo'] ?? {}) as Readonly<Record<string, unknown>>
  return [name, version]
    .filter((part) => typeof part === 'string')
    .join(' ')
    .slice(0, 100)
}

/** Others hear this often that a session is in use, within the time that it may be idle. */
const RENEWALS = 4

const unreachable: Refusal = refusal(503, 'E_STATE_UNAVAILABLE: Sessions cannot be looked up now. Try again shortly.', {
  headers: { 'retry-after': '2' },
})

export const tooManyStreams: Refusal = refusal(429, 'Too many open streams', { headers: { 'retry-after': '30' } })

export function createSessions(options: SessionOptions): Sessions {
  const { clock, idleMs, roaming } = options
  // Kept in the order of last use, so the idlest is always first.
  const sessions = new Map<string, Session>()
  let cancelSweep: (() => void) | undefined

  const touch = (session: Session): void => {
    session.lastSeenMs = clock.now()
    sessions.delete(session.id)
    sessions.set(session.id, session)
    cancelSweep ??= clock.after(idleMs, sweep)
    if (roaming && session.lastSeenMs - session.keptMs >= idleMs / RENEWALS) renew(roaming, session)
  }

  function renew(shared: Roaming, session: Session): void {
    session.keptMs = session.lastSeenMs
    if (session.alone) return void keep(shared, session, session.alone)
    shared.renew(session.id, session.party).then(
      (there) => (there ? undefined : session.transport.close()),
      // Redis is away, and its log says so.
      () => undefined,
    )
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

  /** Who has most of them gives one up: nobody can push out the sessions of others. */
  async function makeRoom(): Promise<void> {
    while (sessions.size >= options.maxSessions) {
      const all = [...sessions.values()]
      const counts = new Map<string, number>()
      for (const { entrant } of all) counts.set(entrant.principal, (counts.get(entrant.principal) ?? 0) + 1)
      const most = Math.max(...counts.values())
      const theirs = all.filter(({ entrant }) => counts.get(entrant.principal) === most)
      const victim = theirs.find(({ transport }) => !transport.busy) ?? theirs[0]
      await victim?.transport.close()
    }
  }

  async function open(entrant: Entrant, opening: Message | undefined, id = newSessionId()): Promise<Session> {
    await makeRoom()
    const transport = createSessionTransport(id, options.pulse)
    const party = partyOf(entrant)
    if (roaming) joinOthers(roaming, id, party, transport)
    const served = options.factory({ era: 'legacy', entrant, sessionId: id })
    const lane = served.lane?.(transport.deliver)
    const revision = revisionFor(opening?.params?.['protocolVersion'])
    const now = clock.now()
    const session: Session = { id, entrant, party, transport, lane, revision, lastSeenMs: now, keptMs: now }
    // At once, so that a burst of them is counted.
    touch(session)
    await connect(served, transport, () => {
      sessions.delete(id)
      lane?.close()
    })
    return session
  }

  /** The session a request names, or the answer it gets. Somebody else's session is as unknown as any. */
  function find(req: IncomingMessage, entrant: Entrant): Session | Refusal | Promise<Session | Refusal> {
    const id = req.headers['mcp-session-id']
    if (id === undefined) return refusal(400, 'Bad request: the Mcp-Session-Id header is required; initialize first')
    const session = sessions.get(String(id))
    if (!session && roaming) return adopted(roaming, String(id), entrant)
    if (!session || session.party !== partyOf(entrant)) return unknown
    touch(session)
    return session
  }

  // Requests come in bursts, and a session is taken up once.
  const adopting = new Map<string, Promise<Session | Refusal>>()

  function adopted(shared: Roaming, id: string, entrant: Entrant): Promise<Session | Refusal> {
    const party = partyOf(entrant)
    const key = JSON.stringify([party, id])
    const found =
      adopting.get(key) ??
      shared
        .find(id, party)
        .then(
          async (kept) => (kept ? await adopt(id, entrant, kept) : unknown),
          () => unreachable,
        )
        .finally(() => adopting.delete(key))
    adopting.set(key, found)
    return found
  }

  async function adopt(id: string, entrant: Entrant, kept: KeptSession): Promise<Session> {
    const session = await open(entrant, kept.opening, id)
    const { transport, lane } = session
    await replay(kept, transport, (opening) => {
      lane?.join(opening)
      if (lane) transport.take = lane.take
    })
    return session
  }

  roaming?.hear((id, said) => {
    const session = sessions.get(id)
    if (session) heard(roaming, session.transport, said)
  })

  async function initialize(res: ServerResponse, entrant: Entrant, body: Messages): Promise<void> {
    const session = await open(entrant, body.messages[0])
    let answered = false
    const { send } = session.transport
    // A session that was refused is not kept: nobody was told of it.
    session.transport.send = async (message, sendOptions) => {
      await send(message, sendOptions)
      if (answered || 'method' in message) return
      answered = true
      session.transport.send = send
      if ('error' in message) return await session.transport.close()
      options.onOpen?.(clientOf(body.messages[0]), entrant.principal)
      const { lane, transport } = session
      if (!lane) return
      lane.join(body.messages[0] as Message)
      transport.take = lane.take
    }
    if (roaming) keepFirst(roaming, session, body.messages[0] as Message)
    session.transport.post(res, body.messages, body.batch)
  }

  /** Its next request may reach another process, so that must know it before its client does. */
  function keepFirst(shared: Roaming, session: Session, opening: Message): void {
    const { transport } = session
    const { send } = transport
    transport.send = async (message, sendOptions) => {
      if ('result' in message) await keep(shared, session, opening)
      await send(message, sendOptions)
    }
  }

  /** While Redis is away the session is this process's own. */
  async function keep(shared: Roaming, session: Session, opening: Message): Promise<void> {
    session.alone = await shared.keep(session.id, session.party, { opening, settings: [] }).then(
      () => undefined,
      () => opening,
    )
  }

  return {
    async post(req, res, entrant, body) {
      const initializes = body.messages.some(({ method }) => method === 'initialize')
      if (initializes && req.headers['mcp-session-id'] === undefined) return initialize(res, entrant, body)
      const found = find(req, entrant)
      // Nothing is awaited for one that is here: calls in a session come all day.
      const session = found instanceof Promise ? await found : found
      if (!('transport' in session)) return refuse(res, session)
      if (initializes)
        return refuse(res, refusal(400, 'Invalid request: the session is initialized already', { code: -32600 }))
      if (body.batch && !hasBatches(session.revision))
        return refuse(res, refusal(400, noBatches(session.revision), { code: -32600 }))
      session.transport.post(res, body.messages, body.batch)
    },
    async listen(req, res, entrant) {
      const session = await find(req, entrant)
      if (!('transport' in session)) return refuse(res, session)
      const free = options.slots.take(entrant.principal)
      if (!free) return refuse(res, tooManyStreams)
      res.once('close', () => {
        free()
        if (sessions.has(session.id)) touch(session)
      })
      session.transport.listen(res)
    },
    async end(req, res, entrant) {
      const session = await find(req, entrant)
      if (!('transport' in session)) return refuse(res, session)
      await roaming?.drop(session.id).catch(() => undefined)
      await session.transport.close()
      res.end()
    },
    get size() {
      return sessions.size
    },
    async revoke(token) {
      const own = [...sessions.values()].filter(
        ({ entrant: { credential } }) =>
          credential !== undefined && 'token' in credential && credential.token === token,
      )
      for (const { id } of own) await roaming?.drop(id).catch(() => undefined)
      await Promise.all(own.map(({ transport }) => transport.close()))
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

const noBatches = (revision: string): string =>
  `Invalid request: batch not supported in ${revision}, send one message a request`

const unknown = refusal(404, 'Session not found', { code: -32001 })

const first = (sessions: ReadonlyMap<string, Session>): Session | undefined => sessions.values().next().value
