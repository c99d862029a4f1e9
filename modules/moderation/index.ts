import { type CallContext, defineModule, type ErrorCode, type Kv, type ToolDef, ToolError, z } from 'pegboard'
import { blockOf, blocksOf } from '../_blocks.ts'
import { notFound } from '../_errors.ts'
import { hasKv as available, requireKv } from '../_kv.ts'
import { lazySchema } from '../_lazy-schema.ts'

const User = lazySchema(() =>
  z.strictObject({
    id: z.string().min(1).describe('User id on the platform.'),
    name: z.string().min(1).describe('Name of the user.'),
    bot: z.boolean().default(false).describe('A bot: it cannot be blocked.'),
    bridged: z.boolean().default(false).describe('A bridge that speaks for many users: it cannot be blocked.'),
  }),
)

const Config = z.strictObject({
  users: z.array(User).default([]).describe('Users beside those who wrote in the channel.'),
})

type Settings = z.infer<typeof Config>

const needs = { flags: ['user_blocking_enabled'] }
const TYPES = ['mute', 'block'] as const
const MAX_HOURS = 168

const blockError = (
  status: string,
  message: string,
  code: ErrorCode = 'E_VALIDATION',
  hint = 'Correct it, or say why it cannot be done.',
) => new ToolError(`user_block_failed_${status}: ${message}`, { code, hint })

const blockStore = (ctx: CallContext<Settings>): Kv => requireKv(ctx, 'user_block_failed_internal_error: Blocks')

const toIsoTime = (ms: number): string => new Date(ms).toISOString()
/** Required by the schema that models see; a missing one gets this module's own error. */
const requiredText = (description: string) => z.string().max(500).optional().describe(description)

const BlockUser = lazySchema(() =>
  z
    .object({
      blocked_user: requiredText('The user, by name or id.'),
      block_type: z
        .string()
        .optional()
        .meta({ enum: TYPES })
        .describe('mute: cannot start you. block: messages are hidden too.'),
      block_duration_hours: z
        .number()
        .optional()
        .meta({ type: 'integer', minimum: 1, maximum: MAX_HOURS })
        .describe('Hours, at most a week.'),
      block_reason: requiredText('Reason, in a sentence.'),
    })
    .meta({ required: ['blocked_user', 'block_type', 'block_duration_hours', 'block_reason'] }),
)

const block_user: ToolDef<Settings, typeof BlockUser> = {
  title: 'Block a user',
  description:
    'Mute or block a user for some hours. mute: their messages start nothing, but stay visible. block: their messages are hidden from you, too. Only for this persona. Use it on harassment, or when a person with the authority asks; not for a mere disagreement, and not for people of other channels. Calling it again changes type and time.',
  aliases: [
    'mute user',
    'ignore user',
    'silence',
    'bloquer',
    'ignorer',
    'bloquear',
    'silenciar',
    'blockieren',
    'stummschalten',
  ],
  tags: ['moderation', 'safety', 'chat'],
  input: BlockUser,
  effect: 'write',
  intent: 'moderation',
  needs,
  sideEffects: ['the user is ignored for some time'],
  examples: [
    {
      input: { blocked_user: 'Bob', block_type: 'mute', block_duration_hours: 1, block_reason: 'Keeps insulting Ada.' },
    },
  ],
  available,
  async run(input, ctx) {
    const { HOUR_MS, saveBlock } = await import('./blocks.ts')
    const { matchPeople, listPeople } = await import('./find-people.ts')
    const targetName = input.blocked_user?.trim() ?? ''
    const block_type = TYPES.find((type) => type === input.block_type?.trim().toLowerCase())
    const duration_hours = input.block_duration_hours
    const reason = input.block_reason?.replaceAll(/\s+/g, ' ').trim() ?? ''
    if (targetName === '') throw blockError('invalid_target', 'blocked_user is missing.')
    if (!block_type) throw blockError('invalid_type', `block_type is one of ${TYPES.join(', ')}.`)
    if (
      duration_hours === undefined ||
      !Number.isInteger(duration_hours) ||
      duration_hours < 1 ||
      duration_hours > MAX_HOURS
    )
      throw blockError('invalid_duration', `block_duration_hours is a whole number from 1 to ${MAX_HOURS}.`)
    if (reason === '') throw blockError('invalid_reason', 'block_reason is missing.')
    const matches = matchPeople(await listPeople(ctx, ctx.config.users), targetName)
    const [user] = matches
    if (!user) throw blockError('user_not_found', `No user "${targetName.slice(0, 80)}" is known here.`, 'E_NOT_FOUND')
    if (matches.length > 1)
      throw blockError(
        'ambiguous_user',
        `"${targetName.slice(0, 80)}" could be ${matches
          .slice(0, 10)
          .map(({ id, name }) => `${name} (${id})`)
          .join(', ')}.`,
        'E_VALIDATION',
        'Pass the id.',
      )
    if (user.bot) throw blockError('bot_target', `${user.name} is a bot.`, 'E_DENIED_BY_POLICY')
    if (user.bridged) throw blockError('bridge_user', `${user.name} is a bridge.`, 'E_DENIED_BY_POLICY')
    const kv = blockStore(ctx)
    const now = Date.now()
    const expires_at = now + duration_hours * HOUR_MS
    try {
      const { id: user_id, name: user_name } = user
      const guild_id = ctx.origin.guildId
      await saveBlock(kv, { guild_id, user_id, user_name, block_type, reason, duration_hours, expires_at }, now)
    } catch (error) {
      ctx.log.error('a block could not be stored', { error: String(error) })
      throw blockError('db_error', 'The block could not be stored.', 'E_BACKEND_UNAVAILABLE', 'Try again later.')
    }
    return {
      status: 'user_block_created_successfully',
      target_user: user.name,
      persona_id: ctx.profile.id,
      block_type,
      reason,
      expires_at: toIsoTime(expires_at),
      duration_hours,
    }
  },
}

const UserInput = lazySchema(() => z.object({ user: z.string().min(1).max(200).describe('The user, by name or id.') }))

const unblock_user: ToolDef<Settings, typeof UserInput> = {
  title: 'Unblock a user',
  description:
    'Remove a mute or block of a user before it expires. Use it when the matter is settled, or when a person with the authority asks. Not needed after it expired.',
  aliases: ['unmute user', 'lift block', 'débloquer', 'desbloquear', 'Blockierung aufheben'],
  tags: ['moderation', 'safety', 'chat'],
  input: UserInput,
  effect: 'write',
  intent: 'moderation',
  needs,
  sideEffects: ['the user is no longer ignored'],
  examples: [{ input: { user: 'Bob' } }],
  available,
  async run({ user }, ctx) {
    const { removeBlock } = await import('./blocks.ts')
    const block = await removeBlock(blockStore(ctx), ctx.origin.guildId, user.trim(), Date.now())
    if (!block)
      throw notFound(
        `user_unblock_failed_not_found: "${user.slice(0, 80)}" is neither muted nor blocked.`,
        'list_blocks lists them.',
      )
    return { status: 'user_unblocked_successfully', target_user: block.user_name, persona_id: ctx.profile.id }
  },
}

const list_blocks: ToolDef<Settings> = {
  title: 'Blocked users',
  description: 'List muted and blocked users, the reasons and the remaining time. Expired blocks are not listed.',
  aliases: ['blocked users', 'who is muted', 'utilisateurs bloqués', 'usuarios bloqueados'],
  tags: ['moderation', 'chat'],
  effect: 'read',
  needs,
  sideEffects: ['none'],
  examples: [{ input: {} }],
  available,
  async run(_input, ctx) {
    const { hoursLeft } = await import('./blocks.ts')
    const now = Date.now()
    const blocks = await blocksOf(blockStore(ctx), ctx.origin.guildId, now)
    return {
      persona_id: ctx.profile.id,
      count: blocks.length,
      blocks: blocks.map((block) => ({
        user_id: block.user_id,
        user_name: block.user_name,
        block_type: block.block_type,
        reason: block.reason,
        expires_at: toIsoTime(block.expires_at),
        hours_left: hoursLeft(block, now),
      })),
    }
  },
}

const check_trigger: ToolDef<Settings, typeof UserInput> = {
  title: 'Check a user',
  description:
    'Check whether a message of a user may start this persona, or why not. For programs that watch a chat, before they pass on a message. To see who is blocked use list_blocks.',
  aliases: ['is user muted', 'trigger eligibility', 'peut-il parler', 'puede hablar'],
  tags: ['moderation', 'adapter'],
  input: UserInput,
  effect: 'read',
  needs,
  sideEffects: ['none'],
  examples: [{ input: { user: 'Bob' } }],
  available,
  async run({ user }, ctx) {
    const block = blockOf(await blocksOf(blockStore(ctx), ctx.origin.guildId, Date.now()), {
      id: user.trim(),
      name: user,
    })
    return block === undefined
      ? { user, eligible: true }
      : { user: block.user_name, eligible: false, reason: block.block_type, expires_at: toIsoTime(block.expires_at) }
  },
}

const History = lazySchema(() =>
  z.object({
    messages: z
      .array(z.record(z.string(), z.unknown()))
      .max(1_000)
      .describe('Messages, oldest first: role, content, user_id, user_name, message_id, reply_to.'),
  }),
)

const filter_history: ToolDef<Settings, typeof History> = {
  title: 'Hide blocked messages',
  description:
    'Remove messages of blocked users from a chat history: a notice replaces them. For programs that show a model their own history; conversations of Pegboard are already filtered. Muted users stay.',
  aliases: ['filter messages', 'remove blocked', 'filtrer l’historique', 'filtrar historial'],
  tags: ['moderation', 'adapter', 'history'],
  input: History,
  effect: 'read',
  needs,
  opaque: ['messages'],
  sideEffects: ['none'],
  examples: [{ input: { messages: [{ role: 'user', user_name: 'Bob', content: 'hi' }] } }],
  available,
  async run({ messages }, ctx) {
    const { filterHistory } = await import('./filter-history.ts')
    const now = Date.now()
    return { messages: filterHistory(messages, await blocksOf(blockStore(ctx), ctx.origin.guildId, now), now) }
  },
}

export default defineModule({
  name: 'moderation',
  description: 'Users of a chat that this persona ignores for a time: muted, or blocked and hidden.',
  config: Config,
  synonyms: [['block', 'ban', 'mute', 'ignore', 'bloquer', 'bloquear', 'blockieren']],
  tools: { block_user, unblock_user, list_blocks, check_trigger, filter_history },
})
