import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Message } from '../core/jsonrpc.ts'
import type { Log } from '../core/log.ts'
import type { Shared } from '../state/shared.ts'
import type { Table } from '../state/store.ts'
import type { SessionTransport } from './streamable.ts'

/** What a process needs to carry on a session that another one opened. */
export interface KeptSession {
  /** Its `initialize`. */
  readonly opening: Message
  /** Requests whose effect lasts: the log level and each subscription. */
  readonly settings: readonly Message[]
}

/** What processes tell each other of a session. */
export type Said =
  | { readonly kind: 'end' }
  /** A message of the client, for the process that waits for it. */
  | { readonly kind: 'in'; readonly message: Message }
  /** A message for the client, for the process that has its stream. */
  | { readonly kind: 'out'; readonly message: object }

/** 2025-era sessions that every process behind one address may carry on. */
export interface Roaming {
  /** Marks what is asked from here. */
  readonly mark: string
  /** @param ownerOf whose it is; nobody else gets it back. @throws PegboardError E_STATE_UNAVAILABLE */
  keep(id: string, owner: string, session: KeptSession): Promise<void>
  find(id: string, owner: string): Promise<KeptSession | undefined>
  /** It is in use: it lasts longer. False when it has ended elsewhere. */
  renew(id: string, owner: string): Promise<boolean>
  /** A request whose effect lasts was made. */
  remember(id: string, owner: string, message: Message): void
  drop(id: string): Promise<void>
  say(id: string, said: Said): void
  /** Hears what others say of sessions. */
  hear(listener: (id: string, said: Said) => void): void
}

export interface RoamingOptions {
  readonly shared: Pick<Shared, 'store' | 'tell' | 'hear'>
  readonly clock: Clock
  readonly log: Log
  /** A session nobody uses for this long is forgotten. */
  readonly idleMs: number
}

const TOPIC = 'session'
const MAX_OPENING_CHARS = 64 * 1024
const MAX_SETTINGS = 500
/** A level or an address, and what is said beside them. */
const MAX_SETTING_CHARS = 4 * 1024
const LASTING = new Set(['logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'])

export const lasts = ({ method }: Message): boolean => method !== undefined && LASTING.has(method)

export function createRoaming({ shared, clock, log, idleMs }: RoamingOptions): Roaming {
  const table = (): Table<KeptSession> => shared.store().table('session')

  async function change(id: string, owner: string, to: (value: KeptSession) => KeptSession): Promise<boolean> {
    for (;;) {
      const row = await table().get(id)
      if (row?.owner !== owner) return false
      const write = { id, owner, value: to(row.value), expiresAt: clock.now() + idleMs }
      if ((await table().put(write, row.revision)) !== undefined) return true
    }
  }

  return {
    mark: randomBytes(6).toString('hex'),
    async keep(id, owner, session) {
      if (JSON.stringify(session.opening).length > MAX_OPENING_CHARS)
        throw new PegboardError('E_TOO_LARGE', 'A session says too much of its client to be shared.')
      await table().put({ id, owner, value: session, expiresAt: clock.now() + idleMs })
    },
    async find(id, owner) {
      const row = await table().get(id)
      return row?.owner === owner ? row.value : undefined
    },
    renew: (id, owner) => change(id, owner, (value) => value),
    remember(id, owner, message) {
      const said = JSON.stringify([id, { kind: 'in', message } satisfies Said])
      // Nothing comes of it here either, and five hundred of them are written with each that follows.
      if (said.length > MAX_SETTING_CHARS) return
      shared.tell(TOPIC, said)
      change(id, owner, ({ opening, settings }) => ({ opening, settings: settled(settings, message) })).catch(
        (error: unknown) => log.warn('a setting of a session could not be kept', { error: messageOf(error) }),
      )
    },
    async drop(id) {
      shared.tell(TOPIC, JSON.stringify([id, { kind: 'end' } satisfies Said]))
      await table().delete(id)
    },
    say: (id, said) => shared.tell(TOPIC, JSON.stringify([id, said])),
    hear: (listener) => shared.hear(TOPIC, (text) => listener(...(JSON.parse(text) as [string, Said]))),
  }
}

/** The latest of each: a level, and the subscriptions that were not ended. */
function settled(settings: readonly Message[], message: Message): readonly Message[] {
  const uri = message.params?.['uri']
  const others = settings.filter(({ method, params }) =>
    uri === undefined ? method !== message.method : params?.['uri'] !== uri,
  )
  return (message.method === 'resources/unsubscribe' ? others : [...others, message]).slice(-MAX_SETTINGS)
}

/** Each process finds these out for itself. */
const EVERYWHERE = new Set([
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
])

/** Makes one of the session here and its likes in other processes: who asks is answered, wherever the client sends it. */
export function joinOthers(roaming: Roaming, id: string, owner: string, transport: SessionTransport): void {
  const { deliver, post } = transport
  const marked = (asked: unknown): string => `${roaming.mark}:${typeof asked === 'number' ? 'n' : 's'}${asked}`
  transport.deliver = (message, related) => {
    const { id: asked, method, params } = message as Message
    if (method === undefined) return deliver(message, related)
    if (asked !== undefined) return deliver({ ...message, id: marked(asked) }, related)
    if (method === 'notifications/cancelled')
      return deliver({ ...message, params: { ...params, requestId: marked(params?.['requestId']) } }, related)
    if (related !== undefined || transport.listening) return deliver(message, related)
    if (!EVERYWHERE.has(method)) roaming.say(id, { kind: 'out', message })
  }
  transport.post = (res, messages, batch) => {
    const here: Message[] = []
    for (const message of messages) {
      const answered = message.method === undefined
      const ours = answered ? unmarked(roaming.mark, message) : message
      if (ours) here.push(ours)
      if (lasts(message)) roaming.remember(id, owner, message)
      else if (!ours || message.method === 'notifications/cancelled') roaming.say(id, { kind: 'in', message })
    }
    post(res, here, batch)
  }
}

/** What another process heard of this session. */
export function heard(roaming: Roaming, transport: SessionTransport, said: Said): void {
  if (said.kind === 'end') void transport.close()
  else if (said.kind === 'out') {
    if (transport.listening) transport.deliver(said.message)
  } else {
    const { message } = said
    const ours = message.method === undefined ? unmarked(roaming.mark, message) : unanswered(message)
    if (ours) toServer(transport, ours)
  }
}

/** Shows a session that was opened elsewhere what its client said there. */
export async function replay(
  { opening, settings }: KeptSession,
  transport: SessionTransport,
  join: (opening: Message) => void,
): Promise<void> {
  const { send } = transport
  await new Promise<void>((resolve) => {
    transport.send = async (message, options) => {
      if (!('method' in message)) resolve()
      else await send(message, options)
    }
    transport.onmessage?.(unanswered(opening) as never)
  })
  transport.send = send
  join(opening)
  transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/initialized' })
  for (const setting of settings) toServer(transport, unanswered(setting))
}

const toServer = (transport: SessionTransport, message: Message): void => {
  if (!transport.take?.(message)) transport.onmessage?.(message as never)
}

let replayed = 0
/** The answer went out where it was asked: under a new id nobody waits for one here. */
const unanswered = (message: Message): Message =>
  message.id === undefined ? message : { ...message, id: `pegboard:again:${++replayed}` }

/** An answer to what was asked from here, under the id it was asked by. */
function unmarked(mark: string, message: Message): Message | undefined {
  const [whose, ...rest] = String(message.id).split(':')
  const id = rest.join(':')
  if (whose !== mark) return undefined
  return { ...message, id: id.startsWith('n') ? Number(id.slice(1)) : id.slice(1) }
}
