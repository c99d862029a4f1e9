import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import { messageOf, PegboardError } from '../../core/errors.ts'
import type { Message } from '../../core/jsonrpc.ts'
import { changedList } from '../../core/list-kinds.ts'
import type { Log } from '../../core/log.ts'
import type { SharedState } from '../../state/shared-state.ts'
import type { Table } from '../../state/store.ts'
import type { SessionTransport } from './session-transport.ts'

/** What a process needs to continue a session that another one opened. */
export interface StoredSession {
  /** Its `initialize`. */
  readonly opening: Message
  /** Requests with a lasting effect: the log level and each subscription. */
  readonly settings: readonly Message[]
}

export type SessionMessage =
  | { readonly kind: 'end' }
  /** From the client, for the process that waits for it. */
  | { readonly kind: 'in'; readonly message: Message }
  /** For the client, through the process that has its stream. */
  | { readonly kind: 'out'; readonly message: object }

/** 2025 sessions that every process behind one address can continue. */
export type SessionHandover = ReturnType<typeof createSessionHandover>

export interface SessionHandoverOptions {
  readonly shared: Pick<SharedState, 'store' | 'publish' | 'subscribe'>
  readonly clock: Clock
  readonly log: Log
  /** Lifetime of an unused session, in milliseconds. */
  readonly idleMs: number
}

const TOPIC = 'session'
const MAX_OPENING_CHARS = 64 * 1024
const MAX_SETTINGS = 500
/** Longest request to store: a level or a URI, with its `_meta`. */
const MAX_SETTING_CHARS = 4 * 1024
const LASTING = new Set(['logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'])

const isLasting = ({ method }: Message): boolean => method !== undefined && LASTING.has(method)

export function createSessionHandover({ shared, clock, log, idleMs }: SessionHandoverOptions) {
  const table = (): Table<StoredSession> => shared.store().table('session')
  const publish = (id: string, sessionMessage: SessionMessage): void =>
    shared.publish(TOPIC, JSON.stringify([id, sessionMessage]))

  async function change(id: string, owner: string, to: (value: StoredSession) => StoredSession): Promise<boolean> {
    for (;;) {
      const row = await table().get(id)
      if (row?.owner !== owner) return false
      const write = { id, owner, value: to(row.value), expiresAt: clock.now() + idleMs }
      if ((await table().put(write, row.revision)) !== undefined) return true
    }
  }

  return {
    /** Put into the ids of requests to the client, so that its answers find this process. */
    processId: randomBytes(6).toString('hex'),
    /** Stores a session. @param owner identity key of the session. @throws PegboardError E_STATE_UNAVAILABLE, E_TOO_LARGE */
    async keep(id: string, owner: string, session: StoredSession): Promise<void> {
      if (JSON.stringify(session.opening).length > MAX_OPENING_CHARS)
        throw new PegboardError('E_TOO_LARGE', 'The initialize request of a session is too long to be shared.')
      await table().put({ id, owner, value: session, expiresAt: clock.now() + idleMs })
    },
    async find(id: string, owner: string): Promise<StoredSession | undefined> {
      const row = await table().get(id)
      return row?.owner === owner ? row.value : undefined
    },
    /** Extends the lifetime of a session in use. False if another process has ended it. */
    renew: (id: string, owner: string): Promise<boolean> => change(id, owner, (value) => value),
    /** Stores a request with a lasting effect, and sends it to the other processes. */
    remember(id: string, owner: string, message: Message): void {
      // Up to 500 of them are written again with each new one.
      if (JSON.stringify(message).length > MAX_SETTING_CHARS) return
      publish(id, { kind: 'in', message })
      change(id, owner, ({ opening, settings }) => ({ opening, settings: mergeSettings(settings, message) })).catch(
        (error: unknown) => log.warn('a setting of a session could not be stored', { error: messageOf(error) }),
      )
    },
    async drop(id: string): Promise<void> {
      publish(id, { kind: 'end' })
      await table().delete(id)
    },
    publish,
    subscribe: (listener: (id: string, sessionMessage: SessionMessage) => void): void =>
      shared.subscribe(TOPIC, (text) => listener(...(JSON.parse(text) as [string, SessionMessage]))),
  }
}

/** The latest log level, and the subscriptions that are open. */
function mergeSettings(settings: readonly Message[], message: Message): readonly Message[] {
  const uri = message.params?.['uri']
  const others = settings.filter(({ method, params }) =>
    uri === undefined ? method !== message.method : params?.['uri'] !== uri,
  )
  return (message.method === 'resources/unsubscribe' ? others : [...others, message]).slice(-MAX_SETTINGS)
}

/** Every process sends these itself. */
const isSentByEach = (method: string): boolean =>
  changedList(method) !== undefined || method === 'notifications/resources/updated'

/** Connects the transports that several processes have for one session: an answer reaches the process that asked. */
export function connectProcesses(
  handover: SessionHandover,
  id: string,
  owner: string,
  transport: SessionTransport,
): void {
  const { deliver, post } = transport
  const withProcessId = (requestId: unknown): string =>
    `${handover.processId}:${typeof requestId === 'number' ? 'n' : 's'}${requestId}`
  transport.deliver = (message, related) => {
    const { id: requestId, method, params } = message as Message
    if (method === undefined) return deliver(message, related)
    if (requestId !== undefined) return deliver({ ...message, id: withProcessId(requestId) }, related)
    if (method === 'notifications/cancelled')
      return deliver({ ...message, params: { ...params, requestId: withProcessId(params?.['requestId']) } }, related)
    if (related !== undefined || transport.listening) return deliver(message, related)
    if (!isSentByEach(method)) handover.publish(id, { kind: 'out', message })
  }
  transport.post = (res, messages, batch) => {
    const localMessages: Message[] = []
    for (const message of messages) {
      const answered = message.method === undefined
      const localMessage = answered ? withoutProcessId(handover.processId, message) : message
      if (localMessage) localMessages.push(localMessage)
      if (isLasting(message)) handover.remember(id, owner, message)
      else if (!localMessage || message.method === 'notifications/cancelled')
        handover.publish(id, { kind: 'in', message })
    }
    post(res, localMessages, batch)
  }
}

export function handleSessionMessage(
  handover: SessionHandover,
  transport: SessionTransport,
  sessionMessage: SessionMessage,
): void {
  if (sessionMessage.kind === 'end') void transport.close()
  else if (sessionMessage.kind === 'out') {
    if (transport.listening) transport.deliver(sessionMessage.message)
  } else {
    const { message } = sessionMessage
    const localMessage =
      message.method === undefined ? withoutProcessId(handover.processId, message) : withNewId(message)
    if (localMessage) toServer(transport, localMessage)
  }
}

/** Replays what a client sent to another process. */
export async function replaySession(
  { opening, settings }: StoredSession,
  transport: SessionTransport,
  ready: () => void,
): Promise<void> {
  const { send } = transport
  await new Promise<void>((resolve) => {
    transport.send = async (message, options) => {
      if (!('method' in message)) resolve()
      else await send(message, options)
    }
    transport.onmessage?.(withNewId(opening) as never)
  })
  transport.send = send
  ready()
  transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/initialized' })
  for (const setting of settings) toServer(transport, withNewId(setting))
}

const toServer = (transport: SessionTransport, message: Message): void => {
  if (!transport.take?.(message)) transport.onmessage?.(message as never)
}

let replayed = 0
/** The same request with a new id, because another process has answered it. */
const withNewId = (message: Message): Message =>
  message.id === undefined ? message : { ...message, id: `pegboard:again:${++replayed}` }

/** An answer with its original id; undefined if another process asked. */
function withoutProcessId(processId: string, message: Message): Message | undefined {
  const [askingProcess, ...rest] = String(message.id).split(':')
  const id = rest.join(':')
  if (askingProcess !== processId) return undefined
  return { ...message, id: id.startsWith('n') ? Number(id.slice(1)) : id.slice(1) }
}
