import { type CallContext, defineModule, type Kv, type ToolDef, z } from 'pegboard'
import { stringList } from '../_access.ts'
import { canActForOthers } from '../_admin.ts'
import { callIfThere } from '../_call-if-there.ts'
import { denied, invalid, notFound } from '../_errors.ts'
import { hasKv as available, requireKv } from '../_kv.ts'
import { nameOfCaller, sameName } from '../_names.ts'

const SETTING = 'modules.relay.config'

const Config = z.strictObject({
  enabled: z.boolean().default(false).describe('Enable the tools.'),
  users: stringList('Names that can get messages before they were seen.'),
  max_pending: z
    .int()
    .min(1)
    .max(100)
    .default(5)
    .describe('Messages that can wait for one recipient, and from one sender.'),
  notices: z.boolean().default(true).describe("Deliver waiting messages with the result of the recipient's next call."),
  rewrite: z.boolean().default(false).describe('Let a language model rewrite messages for the recipient.'),
})

type Settings = z.infer<typeof Config>
type Context = CallContext<Settings>

const MAX_CHARS = 1_000
const MISSING_RECIPIENT = 'relay_message needs a "recipient": the name of whom it is for'
const MISSING_TEXT = 'relay_message needs a "text": what to tell'
/** Characters that reverse or hide text; the joiners of emoji stay. */
const INVISIBLE = /[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu
const requiredText = (description: string, message: string) =>
  z
    .string({ error: () => message })
    .max(MAX_CHARS)
    .describe(description)
const optionalName = z.string().max(100).optional().describe('Name; default yourself.')

const messageStore = (ctx: Context): Kv => requireKv(ctx, 'Messages')

const canActFor = (ctx: Context, name: string): boolean =>
  sameName(name) === sameName(nameOfCaller(ctx)) || canActForOthers(ctx)

/** The person to act for; default the caller. @throws ToolError if the caller may not act for them */
function requireActingFor(ctx: Context, requestedName: string | undefined): string {
  const name = requestedName?.trim() || nameOfCaller(ctx)
  if (canActFor(ctx, name)) return name
  throw denied(`Only ${name} can do that.`, 'Leave the name out.')
}

/** Muted users can neither start anything nor leave messages. Without the moderation module nobody is muted. */
async function isMuted(ctx: Context, sender: string): Promise<boolean> {
  const answer = await callIfThere(ctx, 'moderation.check_trigger', { user: sender })
  return (answer as { eligible?: unknown } | undefined)?.eligible === false
}

const RelayMessage = z.object({
  recipient: requiredText('Name of the recipient.', MISSING_RECIPIENT),
  text: requiredText('The message, in the words of the sender.', MISSING_TEXT),
})

const relay_message: ToolDef<Settings, typeof RelayMessage> = {
  title: 'Leave a message',
  description:
    'Leave a message for another person, who gets it when they next appear. Call it when a user asks you to tell, ask or remind another. Not for the sender, nor for a person who is talking with you now. Do not claim to have told it: it is told later.',
  aliases: [
    'tell someone',
    'pass on a message',
    'leave word',
    'transmettre un message',
    'dejar recado',
    'Nachricht hinterlassen',
  ],
  tags: ['message', 'chat', 'later'],
  input: RelayMessage,
  effect: 'write',
  sideEffects: ['stores a message until it is delivered'],
  examples: [{ input: { recipient: 'Bob', text: 'the meeting is at five' } }],
  available,
  async run(input, ctx) {
    const { config, services, log } = ctx
    const { findRecipient, similarNames, listRecipients } = await import('./recipients.ts')
    const { hasOptedOut, enqueue } = await import('./queue.ts')
    const requestedName = input.recipient.trim()
    const text = input.text.replaceAll(/\s+/g, ' ').replaceAll(INVISIBLE, '').trim()
    if (requestedName === '') throw invalid(MISSING_RECIPIENT, 'Ask for the recipient.')
    if (text === '') throw invalid(MISSING_TEXT, 'Ask for the message.')
    const sender = nameOfCaller(ctx)
    if (sameName(requestedName) === sameName(sender))
      throw invalid('A message to oneself is not relayed.', 'Ask for the recipient.')
    const kv = messageStore(ctx)
    if (await isMuted(ctx, sender)) throw denied('You cannot leave messages now.', 'Do not try again for this person.')
    const recipients = await listRecipients(ctx, config.users)
    const match = findRecipient(recipients, requestedName)
    if (!match) {
      const suggestions = similarNames(recipients, requestedName)
      throw notFound(
        `Nobody called "${requestedName.slice(0, 80)}" is known here.${suggestions.length > 0 ? ` Did you mean: ${suggestions.join(', ')}?` : ''}`,
        'Ask for the recipient.',
      )
    }
    const recipient = match.name
    if (await hasOptedOut(kv, recipient))
      throw denied(`${recipient} does not want messages.`, 'Say so; do not try again.')
    const textForRecipient = config.rewrite
      ? await (await import('./rewrite.ts')).rewriteMessage(services.llm, text, sender, recipient, log)
      : text
    const queued = await enqueue(
      kv,
      { from: sender, to: recipient, text: textForRecipient },
      config.max_pending,
      Date.now(),
    )
    return {
      ok: true,
      recipient,
      source: match.source,
      queued,
      note: `${recipient} gets the message when they next appear. It has not been delivered yet.`,
    }
  },
}

const Pending = z.object({ user: optionalName })

const relay_pending: ToolDef<Settings, typeof Pending> = {
  title: 'Waiting messages',
  description:
    'Show messages that wait for you, or those you left for another person. They stay queued. Not for chat history.',
  aliases: ['my messages', 'messages for me', 'messages en attente', 'mensajes pendientes'],
  tags: ['message', 'chat'],
  input: Pending,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }, { input: { user: 'Bob' } }],
  available,
  async run({ user }, ctx) {
    const { waitingFor } = await import('./queue.ts')
    const callerName = nameOfCaller(ctx)
    const recipient = user?.trim() || callerName
    const waiting = await waitingFor(messageStore(ctx), recipient, Date.now())
    const canReadAll = canActFor(ctx, recipient)
    const messages = waiting
      .filter(({ from }) => canReadAll || sameName(from) === sameName(callerName))
      .map(({ id, from, to, text, at }) => ({ id, from, to, text, left_at: new Date(at).toISOString() }))
    return { user: recipient, pending: messages.length, messages }
  },
}

const Deliver = z.object({
  nick: z.string().min(1).max(100).describe('Name of the person.'),
  event: z.enum(['speak', 'join']).default('speak').describe('What they did.'),
})

const relay_deliver: ToolDef<Settings, typeof Deliver> = {
  title: 'Deliver messages',
  description:
    'Deliver the messages for a person who just spoke or joined, as lines to say in the channel, and remove them. For programs that watch a chat; say every line, as each is returned once. To only look, use relay_pending.',
  aliases: ['deliver relay', 'take messages', 'remettre les messages', 'entregar mensajes'],
  tags: ['message', 'chat', 'adapter'],
  input: Deliver,
  effect: 'write',
  sideEffects: ['removes messages from the queue'],
  examples: [{ input: { nick: 'Bob', event: 'join' } }],
  available,
  async run({ nick: requestedNick, event }, ctx) {
    const { takeDeliveries } = await import('./queue.ts')
    const nick = requireActingFor(ctx, requestedNick)
    const lines = await takeDeliveries(messageStore(ctx), nick, Date.now())
    return { nick, event, delivered: lines.length, lines }
  },
}

const Nick = z.object({ nick: optionalName })

/** The common part of the two tools that set whether a person gets messages. */
const settingOptedOut = (
  optedOut: boolean,
): Pick<ToolDef<Settings, typeof Nick>, 'input' | 'effect' | 'idempotent' | 'available' | 'run'> => ({
  input: Nick,
  effect: 'write',
  idempotent: true,
  available,
  async run({ nick: requestedNick }, ctx) {
    const { setOptedOut } = await import('./queue.ts')
    const nick = requireActingFor(ctx, requestedNick)
    return { nick, opted_out: optedOut, changed: await setOptedOut(messageStore(ctx), nick, optedOut) }
  },
})

const relay_opt_out: ToolDef<Settings, typeof Nick> = {
  title: 'Refuse messages',
  description:
    'Refuse messages from others from now on, and drop waiting ones unread. Call it when a user says that they want no relayed messages. Not for blocking one person.',
  aliases: ['no more messages', 'stop relaying', 'plus de messages', 'no más mensajes'],
  tags: ['message', 'privacy'],
  sideEffects: ['messages for that person are refused and dropped'],
  examples: [{ input: {} }],
  ...settingOptedOut(true),
}

const relay_opt_in: ToolDef<Settings, typeof Nick> = {
  title: 'Accept messages again',
  description: 'Accept messages again after relay_opt_out. Not needed for those who never opted out.',
  aliases: ['messages again', 'allow relaying', 'recevoir des messages', 'recibir mensajes'],
  tags: ['message', 'privacy'],
  sideEffects: ['messages for that person are accepted again'],
  examples: [{ input: {} }],
  ...settingOptedOut(false),
}

export default defineModule({
  name: 'relay',
  description: 'Messages that people leave for each other, delivered when the recipient next appears.',
  config: Config,
  enabled: ({ config }) => config.enabled || `set ${SETTING}.enabled to true`,
  synonyms: [['relay', 'pass on', 'tell', 'transmettre', 'avisar', 'ausrichten']],
  start({ config, services, log, signal }) {
    const { incoming, kv } = services
    if (!config.enabled || !incoming || !kv) return
    const stop = incoming.hear((message) => {
      // Not awaited, so that senders do not wait for it.
      import('./deliver-waiting.ts')
        .then(({ deliverWaiting }) => deliverWaiting(message, services, log))
        .catch((error: unknown) => log.error('a message was not checked for delivery', { error }))
      return undefined
    })
    signal.addEventListener('abort', stop, { once: true })
  },
  async notices(view) {
    const { config, services } = view
    if (!config.notices || services.kv === null) return []
    const { takeDeliveries } = await import('./queue.ts')
    return await takeDeliveries(services.kv, nameOfCaller(view), Date.now())
  },
  tools: { relay_message, relay_pending, relay_deliver, relay_opt_out, relay_opt_in },
})
