import {
  type CachedMessage,
  type CallContext,
  type ConversationEntry,
  defineModule,
  type ToolDef,
  ToolError,
  type ToolView,
  z,
} from 'pegboard'
import { canActForOthers } from '../_admin.ts'
import { callIfThere } from '../_call-if-there.ts'
import { denied, invalid, notFound } from '../_errors.ts'

const SETTING = 'modules.context.config'

const Config = z.strictObject({
  enabled: z.boolean().default(false).describe('Enable the tools.'),
  channel_roles: z
    .array(z.string().min(1).max(64))
    .default([])
    .describe('Roles of tokens that can say which channel a request comes from.'),
})

type Settings = z.infer<typeof Config>
type Context = CallContext<Settings>
type Service = 'conversations' | 'messages'

const needsService =
  (service: Service) =>
  ({ services }: ToolView<Settings>): true | string =>
    services[service] !== null || `set services.${service} to true`

/** @throws ToolError if the host does not provide the service */
function serviceOf<Name extends Service>({ services }: Context, name: Name): NonNullable<Context['services'][Name]> {
  const service = services[name]
  if (service !== null) return service as NonNullable<Context['services'][Name]>
  throw new ToolError('Channels are not stored here.', { hint: `The operator sets services.${name} to true.` })
}

/**
 * The origin of a request is the client's own claim, and grants rights here, so only trusted tokens may make it.
 * @throws ToolError
 */
function checkBelieved(ctx: Context): void {
  if (canActForOthers(ctx) || ctx.caller.roles.some((role) => ctx.config.channel_roles.includes(role))) return
  throw denied(
    'This token cannot say which channel a request comes from.',
    `The operator adds a role of this token to ${SETTING}.channel_roles.`,
  )
}

/**
 * The channel and its platform. Channels other than the request's are for local callers, for clients that serve all
 * channels, and for admins.
 * @throws ToolError
 */
function channelOf(
  ctx: Context,
  channelId: string | undefined,
  where: string | undefined,
): { readonly channel: string; readonly platform: string } {
  checkBelieved(ctx)
  const { channelId: originChannel, platform: from } = ctx.origin
  const platform = where?.trim() || from
  // A channel of another platform is never the request's own, whatever its name.
  const channel = channelId?.trim() || (platform === from ? originChannel : '')
  if (channel === '') throw invalid('The channel is unknown.', 'Give channel_id.')
  if ((channel === originChannel && platform === from) || canActForOthers(ctx)) return { channel, platform }
  throw denied('You can only read the channel that the request comes from.', 'Leave channel_id and platform out.')
}

const iso = (timestamp: number): string => new Date(timestamp).toISOString()
const channel_id = z.string().max(256).optional().describe('The channel; default the channel of the request.')
const platform = z
  .string()
  .max(64)
  .optional()
  .describe('Platform of the channel, such as telegram; default the platform of the request.')
const message_id = z.string().min(1).max(256).describe('From conversation_get.')
const content = z.string().min(1).max(32_000).describe('The text.')
const user_id = z.string().max(256).optional().describe('Id of the author.')
const user_name = z.string().max(256).optional().describe('Name of the author.')
const shownEntry = ({ timestamp, ...entry }: ConversationEntry) => ({ ...entry, timestamp: iso(timestamp) })
const tags = ['context', 'chat', 'history']

const createMissingError = (id: string): ToolError =>
  notFound(`Message "${id.slice(0, 80)}" is not in this conversation.`, 'conversation_get lists the messages.')

/** Removes messages of users whom the persona has blocked. Without the moderation module, nobody is blocked. */
async function withoutBlocked(ctx: Context, messages: readonly Readonly<Record<string, unknown>>[]) {
  const filtered = await callIfThere(ctx, 'moderation.filter_history', { messages })
  return (filtered as { messages: typeof messages } | undefined)?.messages ?? messages
}

const Get = z.object({
  channel_id,
  platform,
  limit: z.int().min(1).max(100).default(20).describe('Maximum number of entries, newest.'),
})

const conversation_get: ToolDef<Settings, typeof Get> = {
  title: 'Read a conversation',
  description:
    "Read the last entries of a channel, oldest first: what was said and by whom. Use it to find out what a channel is about. Not for searching (message_search), nor for this client's own chat.",
  aliases: ['chat history', 'channel history', 'historique du salon', 'historial del canal', 'Verlauf'],
  tags,
  input: Get,
  effect: 'read',
  opaque: ['messages'],
  sideEffects: ['none'],
  examples: [{ input: { limit: 10 } }],
  available: needsService('conversations'),
  async run({ channel_id, platform: where, limit }, ctx) {
    const { channel, platform } = channelOf(ctx, channel_id, where)
    const entries = await serviceOf(ctx, 'conversations').get(channel, limit, platform)
    return { channel_id: channel, messages: await withoutBlocked(ctx, entries.map(shownEntry)) }
  },
}

const Append = z.object({
  channel_id,
  platform,
  role: z.enum(['user', 'assistant', 'system', 'tool']).default('user').describe('Role of the author.'),
  content,
  user_id,
  user_name,
  message_id: z.string().max(256).optional().describe('Id on the platform; default a new one.'),
})

const conversation_append: ToolDef<Settings, typeof Append> = {
  title: 'Add to a conversation',
  description:
    'Add an entry to the conversation of a channel, which keeps the last hundred. For programs that connect a chat. Sends nothing.',
  aliases: ['append history', 'ajouter à l’historique', 'añadir al historial'],
  tags,
  input: Append,
  effect: 'write',
  sideEffects: ['changes the stored conversation'],
  examples: [{ input: { role: 'user', user_name: 'Ada', content: 'Hello' } }],
  available: needsService('conversations'),
  async run({ channel_id, platform: where, ...entry }, ctx) {
    const { channel, platform } = channelOf(ctx, channel_id, where)
    const { origin } = ctx
    const self = entry.role === 'user' ? { user_id: origin.userId, user_name: origin.userName } : {}
    const added = await serviceOf(ctx, 'conversations').append(
      channel,
      { ...self, ...withoutUndefined(entry) },
      platform,
    )
    return { channel_id: channel, ...shownEntry(added) }
  },
}

const Update = z.object({ channel_id, platform, message_id, content })

const conversation_update: ToolDef<Settings, typeof Update> = {
  title: 'Edit a conversation',
  description:
    'Replace the text of an entry in a conversation, for example after its author edited it. Changes nothing on the platform.',
  aliases: ['edit history', 'modifier l’historique', 'editar historial'],
  tags,
  input: Update,
  effect: 'destructive',
  idempotent: true,
  sideEffects: ['changes the stored conversation'],
  examples: [{ input: { message_id: 'm1', content: 'Hello again' } }],
  available: needsService('conversations'),
  async run({ channel_id, platform: where, message_id, content }, ctx) {
    const { channel, platform } = channelOf(ctx, channel_id, where)
    const changed = await serviceOf(ctx, 'conversations').update(channel, message_id, { content }, platform)
    if (changed) return { channel_id: channel, ...shownEntry(changed) }
    throw createMissingError(message_id)
  },
}

const Delete = z.object({
  channel_id,
  platform,
  message_id: z.string().max(256).optional().describe('The entry; default all entries.'),
  all: z.boolean().default(false).describe('Must be true without message_id.'),
})

const conversation_delete: ToolDef<Settings, typeof Delete> = {
  title: 'Delete from a conversation',
  description:
    'Remove an entry from a conversation, for example after its author deleted it; with all, every entry. Deletes nothing on the platform.',
  aliases: ['clear history', 'delete message', 'effacer l’historique', 'borrar historial'],
  tags,
  input: Delete,
  effect: 'destructive',
  sideEffects: ['deletes from the stored conversation'],
  examples: [{ input: { message_id: 'm1' } }, { input: { all: true } }],
  available: needsService('conversations'),
  async run({ channel_id, platform: where, message_id, all }, ctx) {
    const { channel, platform } = channelOf(ctx, channel_id, where)
    const conversations = serviceOf(ctx, 'conversations')
    if (message_id === undefined) {
      if (all) return { channel_id: channel, deleted: await conversations.clear(channel, platform) }
      throw invalid('No entry was named.', 'Pass message_id, or all: true for the whole conversation.')
    }
    if (await conversations.delete(channel, message_id, platform)) return { channel_id: channel, deleted: 1 }
    throw createMissingError(message_id)
  },
}

const shownMessage = ({ timestamp, ...message }: CachedMessage) => ({ ...message, timestamp: iso(timestamp) })

const Message = z.object({
  text: z.string().min(1).max(16_000).describe('Text of the message.'),
  channel_id,
  user_id,
  user_name,
  platform,
  message_id: z.string().max(256).optional().describe('Id on the platform; a known id is replaced.'),
  reply_to_id: z.string().max(256).optional().describe('Id of the message it replies to.'),
  timestamp: z.iso.datetime({ offset: true }).optional().describe('Time; default now.'),
})

const message_record: ToolDef<Settings, typeof Message> = {
  title: 'Record a message',
  description:
    'Store a message of a channel for message_search, and its author as seen there. For programs that connect a chat. Sends nothing; for facts use a memory.',
  aliases: ['cache message', 'log message', 'enregistrer un message', 'registrar mensaje'],
  tags,
  input: Message,
  effect: 'write',
  sideEffects: ['stores a message for ninety days'],
  examples: [{ input: { text: 'The build is green.', user_name: 'Ada' } }],
  available: needsService('messages'),
  async run({ channel_id: which, platform: where, timestamp, ...message }, ctx) {
    const at = timestamp === undefined ? {} : { timestamp: Date.parse(timestamp) }
    const { channel: channel_id, platform } = channelOf(ctx, which, where)
    const fullMessage = { ...withoutUndefined(message), ...at, channel_id, platform }
    return shownMessage(await serviceOf(ctx, 'messages').record(fullMessage))
  },
}

const Search = z.object({
  query: z.string().max(500).default('').describe('Words to search for; default the newest messages.'),
  channel_id,
  platform,
  everywhere: z.boolean().default(false).describe('Search all channels; for admins and on this machine.'),
  limit: z.int().min(1).max(50).default(10).describe('Maximum number of messages.'),
})

const message_search: ToolDef<Settings, typeof Search> = {
  title: 'Search messages',
  description:
    "Find recent messages of a channel by words and meaning, best first; without a query the newest. Use it to find what someone said. Not for files, nor for this client's own chat.",
  aliases: ['find message', 'who said', 'recent messages', 'chercher un message', 'buscar mensaje', 'Nachricht suchen'],
  tags,
  input: Search,
  effect: 'read',
  opaque: ['messages'],
  sideEffects: ['none'],
  examples: [{ input: { query: 'when is the release' } }, { input: { limit: 5 } }],
  available: needsService('messages'),
  async run({ query, channel_id, platform: where, everywhere, limit }, ctx) {
    const messages = serviceOf(ctx, 'messages')
    const searchText = query.trim()
    if (everywhere && !canActForOthers(ctx))
      throw denied('Only admins can search all channels.', 'Leave everywhere out.')
    if (everywhere && searchText === '') throw invalid('Searching all channels needs a query.', 'Pass query.')
    const { channel, platform } = everywhere
      ? { channel: undefined, platform: where?.trim() || undefined }
      : channelOf(ctx, channel_id, where)
    const found =
      searchText === ''
        ? await messages.recent(channel ?? '', limit, platform)
        : await messages.search(searchText, limit, channel, platform)
    return { query: searchText, messages: await withoutBlocked(ctx, found.map(shownMessage)) }
  },
}

/** Without fields that were not given. */
const withoutUndefined = <T extends object>(fields: T): { [Key in keyof T]: Exclude<T[Key], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never

export default defineModule({
  name: 'context',
  description: 'Stored conversations and messages of chat channels: read, add, edit, search.',
  config: Config,
  enabled: ({ config }) => config.enabled || `set ${SETTING}.enabled to true`,
  synonyms: [['channel', 'room', 'salon', 'canal', 'Kanal']],
  tools: {
    conversation_get,
    conversation_append,
    conversation_update,
    conversation_delete,
    message_record,
    message_search,
  },
})
