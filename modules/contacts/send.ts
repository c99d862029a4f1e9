import { type CallContext, isPegboardError, scrub, type ToolDef, ToolError, z } from 'pegboard'
import type { Contact } from '../_contact-files.ts'
import { stateFiles } from '../_state-files.ts'
import { SETTING, type Settings } from './config.ts'
import { createDirectory, isRefusal, notThere } from './directory.ts'
import { type Envelope, envelopeOf, uuidV7 } from './envelope.ts'
import { findContact, type Route, routeTo } from './route.ts'

const TOPIC = 'chat.message'
const CONTENT_TYPE = 'application/json'
const PLATFORMS = ['telegram', 'slack', 'discord']
/** How long it is known that a message went out. */
const REMEMBERED_S = 7 * 24 * 60 * 60

const text = (what: string) => z.string().max(200).optional().describe(what)

const Input = z.object({
  contact_id: z
    .string({
      error: ({ input }) => (input == null ? 'missing required param: contact_id' : 'contact_id must be a string'),
    })
    .trim()
    .min(1, 'missing required param: contact_id')
    .max(200)
    .describe('Who: the contact_id of a section in contacts/ACTIVE.md, or tg:@user.'),
  message_text: z.string().optional().describe('What to write, in plain words.'),
  chat_id: text('One of their Telegram chats, tg:<number>; found by itself.'),
  content_type: text('Always application/json; leave it out.'),
  message_base64: z
    .string()
    .max(100_000)
    .optional()
    .describe('A whole envelope as base64url JSON, in place of message_text.'),
  session_id: text('The conversation it belongs to, a UUID of version 7; made where there is none.'),
  reply_to: text('The message_id that it answers.'),
})

/** @param now what the time is; tests have their own */
export function createSend(now: () => Date): ToolDef<Settings, typeof Input> {
  return {
    title: 'Message a contact',
    description:
      'Sends a message to a person or agent of the contact list, by Telegram or to the address of an agent; the way is found by itself. Read outcome.accepted: a message that could not be delivered is no error here. Not for answering in the present conversation.',
    aliases: [
      'text a contact',
      'send message to',
      'tell someone',
      'let somebody know',
      'écrire à un contact',
      'prévenir quelqu’un',
      'avisar a alguien',
      'enviar mensaje',
    ],
    tags: ['contacts', 'messages'],
    input: Input,
    effect: 'write',
    openWorld: true,
    available: ({ config, services }) =>
      config.peers ||
      (services.adapters?.list() ?? []).some(({ name }) => PLATFORMS.includes(name)) ||
      `nothing can be delivered: configure modules.telegram, or set ${SETTING}.peers to true`,
    sideEffects: ['sends a message to somebody else', 'notes in contacts/ACTIVE.md how that went'],
    examples: [{ input: { contact_id: 'tg:1001', message_text: 'The invoice is paid.' } }],
    run: (asked, ctx) => send(asked, ctx, now()),
  }
}

async function send(asked: z.infer<typeof Input>, ctx: CallContext<Settings>, now: Date) {
  const { config, services, log, warn } = ctx
  const envelope = envelopeOf({ ...asked, content_type: asked.content_type?.trim() || CONTENT_TYPE }, now)
  const directory = createDirectory(config)
  const { contacts, problems } = await directory.all()
  for (const problem of problems) log.warn('a contact could not be read', { problem })
  const contact = findContact(asked.contact_id, contacts)
  if (!contact) throw notThere(asked.contact_id)
  if (contact.kind === 'human' && !config.allow_humans)
    throw new ToolError(`${contact.contact_id} is a person, and only agents are written to.`, {
      code: 'E_DENIED_BY_POLICY',
      hint: `${SETTING}.allow_humans decides.`,
    })
  const adapters = new Set(services.adapters?.list().map(({ name }) => name))
  const route = routeTo(contact, asked.chat_id?.trim() || undefined, adapters, config.peers)
  checkCooldown(contact, now)

  const idempotency_key = `${contact.contact_id}:${envelope.message_id}`
  const outcome = {
    contact_id: contact.contact_id,
    peer_id: route.peer_id,
    item_id: `item_${uuidV7(now)}`,
    idempotency_key,
    sent_at: envelope.sent_at,
  }
  // A message of ours has an id nobody had before; one that came whole may come again.
  const kv = asked.message_text?.trim() ? null : services.kv
  const key = `sent:${idempotency_key}`
  if (kv && (await kv.incr(key)) > 1) return { outcome: { ...outcome, accepted: true, deduped: true } }
  await kv?.expire(key, REMEMBERED_S)

  let error: string | undefined
  let until: Date | undefined
  let thrown: unknown
  try {
    await deliver(route, envelope, outcome, ctx)
  } catch (failure) {
    await kv?.del(key)
    if (ctx.signal.aborted || isRefusal(failure)) throw failure
    error = reasonOf(failure)
    const isLimited = isPegboardError(failure) && failure.code === 'E_RATE_LIMITED'
    if (isLimited) thrown = failure
    const ms = isLimited && failure.retryAfterMs !== null ? failure.retryAfterMs : config.cooldown_hours * 3_600_000
    until = ms > 0 ? new Date(now.getTime() + ms) : undefined
  }
  const noted =
    error === undefined
      ? { last_interaction_at: seconds(now), cooldown_until: '' }
      : { cooldown_until: until === undefined ? '' : seconds(until, Math.ceil) }
  try {
    await directory.note(contact, noted)
  } catch (failure) {
    log.warn('how it went could not be noted', { error: failure })
    warn('How it went could not be noted in the contact file.')
  }
  if (thrown !== undefined) throw thrown
  return {
    outcome: { ...outcome, accepted: error === undefined, deduped: false, ...(error === undefined ? {} : { error }) },
  }
}

const seconds = (date: Date, round = Math.floor): string =>
  new Date(round(date.getTime() / 1_000) * 1_000).toISOString().replace('.000Z', 'Z')

function checkCooldown({ contact_id, cooldown_until }: Contact, now: Date): void {
  const retryAfterMs = Date.parse(cooldown_until) - now.getTime()
  if (!(retryAfterMs > 0)) return
  throw new ToolError(`${contact_id} could not be reached lately, and is left alone until ${cooldown_until}.`, {
    code: 'E_RATE_LIMITED',
    retryAfterMs,
    hint: `Tell the person. Whoever takes cooldown_until out of the contact file allows it sooner; ${SETTING}.cooldown_hours decides.`,
  })
}

interface Item {
  readonly item_id: string
  readonly idempotency_key: string
  readonly peer_id: string
}

async function deliver(
  route: Route,
  envelope: Envelope,
  { item_id, idempotency_key, peer_id }: Item,
  { services, fetch, signal, config }: CallContext<Settings>,
): Promise<void> {
  if (route.by === 'adapter') {
    const { text, reply_to = '', ...about } = envelope
    // Platforms number their messages; a message_id of ours says nothing to them.
    const answered = /^\d+$/.test(reply_to) ? { reply_to } : {}
    await services.adapters?.get(route.adapter)?.send(route.channel, text, { ...about, ...answered })
    return
  }
  if (!/^https?:\/\//i.test(route.address)) {
    const spooled = {
      item_id,
      topic: TOPIC,
      content_type: CONTENT_TYPE,
      peer_id,
      dial_address: route.address,
      envelope,
    }
    const files = stateFiles(config.file_state_dir, '.contacts.lock', SETTING)
    await files.write(`contacts/outbox/${item_id}.json`, `${JSON.stringify(spooled, null, 2)}\n`)
    return
  }
  const answer = await fetch(route.address, {
    method: 'POST',
    // Ids may have letters that no header takes, and halves of one that no address takes.
    headers: {
      'content-type': CONTENT_TYPE,
      'idempotency-key': encodeURI(String(Buffer.from(idempotency_key))),
      'x-topic': TOPIC,
    },
    body: JSON.stringify(envelope),
    signal,
    maxBytes: 64 * 1024,
  })
  await answer.body?.cancel()
  if (!answer.ok) throw new Error(`the peer answered with the status ${answer.status}`)
}

/** For whoever wrote the message: what went wrong, without what libraries put into their messages. */
const reasonOf = (error: unknown): string =>
  scrub((error instanceof Error ? error.message : String(error)).replaceAll(/\bbot\d+:[\w-]+/g, 'bot<redacted>'))
