import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Message } from '../../core/jsonrpc.ts'
import { hasBatches, revisionFor, SESSION_REVISIONS } from '../../core/protocol-revisions.ts'
import type { EventStream, Pulse, StreamSlots } from '../event-stream.ts'
import { HttpError } from '../http-error.ts'
import { type Identity, identityKey, labelOf } from '../identity.ts'
import type { Messages } from '../request-body.ts'
import type { HttpOptions } from '../serve-http.ts'
import { connectServer, newSessionId, type SdkInstance } from '../server-factory.ts'
import { type EventLog, isOfRequest } from './event-log.ts'
import { resumeRemoteStream, serveRemoteStreams } from './remote-streams.ts'
import {
  connectProcesses,
  handleSessionMessage,
  replaySession,
  type SessionHandover,
  type StoredSession,
} from './session-handover.ts'
import { createSessionTransport, endWithoutContent, type SessionTransport } from './session-transport.ts'

export interface SessionOptions extends Pick<HttpOptions, 'factory' | 'clock' | 'handover' | 'processes'> {
  readonly pulse: Pulse
  readonly soon: Pulse
  readonly events: EventLog
  readonly slots: StreamSlots
  readonly maxSessions: number
  /** Idle time after which a session without open requests or streams ends, in milliseconds. */
  readonly idleMs: number
  /** Called when a session opens, with name and version of the client. */
  onOpen(client: string, principal: string): void
}

/** Sessions of 2025 clients, limited in number and idle time. A session id is valid only with the identity that opened it. */
export type Sessions = ReturnType<typeof createSessions>

interface Session {
  readonly id: string
  readonly identity: Identity
  readonly ownerKey: string
  readonly transport: SessionTransport
  readonly served: SdkInstance
  readonly revision: string
  lastSeenMs: number
  /** Time of the last write for other processes. */
  storedMs: number
  /** Its `initialize`, while it could not be shared with other processes. */
  unsharedOpening?: Message | undefined
}

/** Writes for other processes within the idle time of a session. */
const RENEWALS = 4

export function createSessions(options: SessionOptions) {
  const { clock, idleMs, handover, processes } = options
  // In the order of last use, the oldest first.
  const sessions = new Map<string, Session>()
  let cancelSweep: (() => void) | undefined

  const touch = (session: Session): void => {
    session.lastSeenMs = clock.now()
    sessions.delete(session.id)
    sessions.set(session.id, session)
    cancelSweep ??= clock.after(idleMs, sweep)
    if (handover && session.lastSeenMs - session.storedMs >= idleMs / RENEWALS) renew(handover, session)
  }

  function renew(shared: SessionHandover, session: Session): void {
    session.storedMs = session.lastSeenMs
    if (session.unsharedOpening) return void keep(shared, session, session.unsharedOpening)
    shared.renew(session.id, session.ownerKey).then(
      (isStored) => (isStored ? undefined : session.transport.close()),
      // Redis is unavailable, and its client logs that.
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
    const [idlest] = sessions.values()
    if (idlest) cancelSweep ??= clock.after(Math.max(1, idlest.lastSeenMs + idleMs - now), sweep)
  }

  /** Closes a session of the principal with most of them, so that a principal can only displace its own sessions. */
  async function makeRoom(): Promise<void> {
    while (sessions.size >= options.maxSessions) {
      const all = [...sessions.values()]
      const counts = new Map<string, number>()
      for (const { identity } of all) counts.set(identity.principal, (counts.get(identity.principal) ?? 0) + 1)
      const most = Math.max(...counts.values())
      const candidates = all.filter(({ identity }) => counts.get(identity.principal) === most)
      const victim = candidates.find(({ transport }) => !transport.busy) ?? candidates[0]
      await victim?.transport.close()
    }
  }

  /** For new sessions, and for those that this process takes over from another one. */
  async function open(identity: Identity, opening: Message | undefined, id = newSessionId()): Promise<Session> {
    await makeRoom()
    const revision = revisionFor(opening?.params?.['protocolVersion'])
    const transport = createSessionTransport(id, {
      pulse: options.pulse,
      soon: options.soon,
      streams: options.events.session(identity.principal),
      // Older clients cannot parse an event without data.
      primes: options.events.isOn && revision === SESSION_REVISIONS[0],
    })
    const ownerKey = identityKey(identity)
    if (handover) connectProcesses(handover, id, ownerKey, transport)
    const served = options.factory({ era: 'legacy', identity, sessionId: id, send: transport.deliver })
    const now = clock.now()
    const session: Session = { id, identity, ownerKey, transport, served, revision, lastSeenMs: now, storedMs: now }
    // Before any wait, so that `makeRoom` counts sessions that open together.
    touch(session)
    await connectServer(served, transport, () => sessions.delete(id))
    return session
  }

  /** The session that a request names. That of another identity is reported as unknown. @throws HttpError 400, 404 or 503 */
  function find(req: IncomingMessage, identity: Identity): Session | Promise<Session> {
    const id = req.headers['mcp-session-id']
    if (id === undefined)
      throw new HttpError(400, 'Bad request: the Mcp-Session-Id header is required; initialize first')
    const session = sessions.get(String(id))
    if (!session && handover) return findOrAdopt(handover, String(id), identity)
    if (!session || session.ownerKey !== identityKey(identity)) throw createUnknownSession()
    touch(session)
    return session
  }

  // Requests that arrive together must not adopt a session twice.
  const adopting = new Map<string, Promise<Session>>()

  function findOrAdopt(shared: SessionHandover, id: string, identity: Identity): Promise<Session> {
    const ownerKey = identityKey(identity)
    const key = JSON.stringify([ownerKey, id])
    const found =
      adopting.get(key) ??
      shared
        .find(id, ownerKey)
        .catch(() => {
          throw new HttpError(503, 'E_STATE_UNAVAILABLE: Sessions cannot be looked up now. Try again shortly.', {
            headers: { 'retry-after': '2' },
          })
        })
        .then((stored) => {
          if (!stored) throw createUnknownSession()
          return adopt(id, identity, stored)
        })
        .finally(() => adopting.delete(key))
    adopting.set(key, found)
    return found
  }

  async function adopt(id: string, identity: Identity, stored: StoredSession): Promise<Session> {
    const session = await open(identity, stored.opening, id)
    const { transport, served } = session
    served.session?.introduce(stored.opening)
    await replaySession(stored, transport, () => {
      transport.take = served.session?.take
    })
    return session
  }

  if (processes)
    serveRemoteStreams(processes, (id, ownerKey) => {
      const session = sessions.get(id)
      return session?.ownerKey === ownerKey ? session.transport.streams : undefined
    })
  handover?.subscribe((id, sessionMessage) => {
    const session = sessions.get(id)
    if (session) handleSessionMessage(handover, session.transport, sessionMessage)
  })

  async function initialize(res: ServerResponse, identity: Identity, body: Messages): Promise<void> {
    const opening = body.messages[0] as Message
    const session = await open(identity, opening)
    const { transport, served } = session
    served.session?.introduce(opening)
    let answered = false
    const { send } = transport
    // A session that was refused is not kept: no client knows its id.
    transport.send = async (message, sendOptions) => {
      await send(message, sendOptions)
      if (answered || 'method' in message) return
      answered = true
      transport.send = send
      if ('error' in message) return await transport.close()
      options.onOpen(labelOf(opening.params?.['clientInfo']), identity.principal)
      transport.take = served.session?.take
    }
    if (handover) keepFirst(handover, session, opening)
    transport.post(res, body.messages, body.batch)
  }

  /** The next request may reach another process, which must know the session before the client does. */
  function keepFirst(shared: SessionHandover, session: Session, opening: Message): void {
    const { transport } = session
    const { send } = transport
    transport.send = async (message, sendOptions) => {
      if ('result' in message) await keep(shared, session, opening)
      await send(message, sendOptions)
    }
  }

  /** While Redis is unavailable, the session stays with this process. */
  async function keep(shared: SessionHandover, session: Session, opening: Message): Promise<void> {
    session.unsharedOpening = await shared.keep(session.id, session.ownerKey, { opening, settings: [] }).then(
      () => undefined,
      () => opening,
    )
  }

  async function resume({ id, ownerKey, transport }: Session, res: ServerResponse, lastEventId: string): Promise<void> {
    if (transport.resume(res, lastEventId)) return
    const begin = (): EventStream => transport.begin(res, lastEventId)
    const remoteResult =
      processes && (await resumeRemoteStream(processes, { session: id, key: ownerKey, lastEventId }, res, begin))
    if (remoteResult === 'over') endWithoutContent(res)
    else if (!remoteResult) throw new HttpError(400, 'Bad request: Last-Event-ID is not of this session')
  }

  return {
    /** Opens a session for `initialize`, or continues the session that the request names. */
    async post(req: IncomingMessage, res: ServerResponse, identity: Identity, body: Messages): Promise<void> {
      const initializes = body.messages.some(({ method }) => method === 'initialize')
      if (initializes && req.headers['mcp-session-id'] === undefined) return initialize(res, identity, body)
      const found = find(req, identity)
      // Avoids a wait for each call in a local session.
      const session = found instanceof Promise ? await found : found
      if (initializes) throw new HttpError(400, 'Invalid request: the session is initialized already', { code: -32600 })
      if (body.batch && !hasBatches(session.revision)) {
        const why = `Invalid request: batch not supported in ${session.revision}, send one message a request`
        throw new HttpError(400, why, { code: -32600 })
      }
      session.transport.post(res, body.messages, body.batch)
    },
    /** GET: a stream for messages that belong to no request, or a stream to resume (`Last-Event-ID`). */
    async listen(req: IncomingMessage, res: ServerResponse, identity: Identity): Promise<void> {
      const session = await find(req, identity)
      const lastEventId = req.headers['last-event-id']
      // Streams of calls do not count against `maxStreams`.
      if (isOfRequest(lastEventId)) return await resume(session, res, lastEventId)
      const free = options.slots.take(identity.principal)
      res.once('close', () => {
        free()
        if (sessions.has(session.id)) touch(session)
      })
      session.transport.listen(res, typeof lastEventId === 'string' ? lastEventId : undefined)
    },
    /** DELETE: ends the session. */
    async end(req: IncomingMessage, res: ServerResponse, identity: Identity): Promise<void> {
      const session = await find(req, identity)
      await handover?.drop(session.id).catch(() => undefined)
      await session.transport.close()
      res.end()
    },
    get size(): number {
      return sessions.size
    },
    /** Ends the sessions that were opened with this token. */
    async revoke(token: string): Promise<void> {
      const revoked = [...sessions.values()].filter(
        ({ identity: { credential } }) =>
          credential !== undefined && 'token' in credential && credential.token === token,
      )
      for (const { id } of revoked) await handover?.drop(id).catch(() => undefined)
      await Promise.all(revoked.map(({ transport }) => transport.close()))
    },
    async close(): Promise<void> {
      cancelSweep?.()
      await Promise.all([...sessions.values()].map(({ transport }) => transport.close()))
    },
  }
}

const createUnknownSession = (): HttpError => new HttpError(404, 'Session not found', { code: -32001 })
