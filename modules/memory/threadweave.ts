import { type Place, type Strand, type ToolDef, ToolError, type ToolView, type WeaveScope, z } from 'pegboard'
import { isAdmin } from '../_admin.ts'
import { type Context, has, memoryOf, type Settings } from './config.ts'

const available = has('threadweave')
const forAdmins = (view: ToolView<Settings>): true | string => {
  const there = available(view)
  if (there !== true) return there
  return isAdmin(view) || 'for admins: the flag "admin" of the profile'
}

const SCOPES = ['channel', 'category', 'guild'] as const
const strand = z.string().trim().min(1).max(200).describe('Id or title of the text.')
const told = ({ id, title, content, at }: Strand) => ({ dna_id: id, title, content, since: new Date(at).toISOString() })

/** Where the request comes from, from near to far. */
function here({ origin: { channelId, categoryId = '', guildId } }: Context): readonly Place[] {
  const all: readonly Place[] = [
    { scope: 'channel', id: channelId },
    { scope: 'category', id: categoryId },
    { scope: 'guild', id: guildId },
  ]
  return all.filter(({ id }) => id !== '')
}

/** @throws ToolError where the request comes from no such place */
function placeOf(ctx: Context, scope: WeaveScope, given: string | undefined): Place {
  const id = given?.trim() || here(ctx).find((place) => place.scope === scope)?.id
  if (id) return { scope, id }
  throw new ToolError(`It is not known which ${scope} is meant.`, { code: 'E_VALIDATION', hint: 'Give scope_id.' })
}

const Dna = z.object({
  title: z.string().trim().min(1).max(200).describe('What it is called. One of that title is replaced.'),
  content: z.string().min(1).max(8_000).describe('The text.'),
})

export const vault_dna: ToolDef<Settings, typeof Dna> = {
  title: 'Keep a text',
  description:
    'Keeps a text in the vault, from where weave makes it known in channels. For admins; use it for rules and background of a community. Not for facts about one user (remember).',
  aliases: ['store dna', 'vault', 'conserver', 'guardar texto'],
  tags: ['memory', 'threadweave', 'admin'],
  input: Dna,
  effect: 'write',
  idempotent: true,
  sideEffects: ['keeps or replaces a text'],
  examples: [{ input: { title: 'House rules', content: 'Be kind.' } }],
  available: forAdmins,
  run: async ({ title, content }, ctx) => told(await memoryOf(ctx).threadweave.vaultDna(title, content)),
}

const Read = z.object({ dna_id: strand.optional().describe('Id or title; without it all that is known here.') })

export const read_dna: ToolDef<Settings, typeof Read> = {
  title: 'What is known here',
  description:
    'Gives texts that are woven into this channel, its category or its guild. Use it for rules and background of the place you are in. Not for facts about a user (recall).',
  aliases: ['channel knowledge', 'read weave', 'règles du salon', 'reglas del canal'],
  tags: ['memory', 'threadweave'],
  input: Read,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }],
  available,
  async run({ dna_id }, ctx) {
    const strands = await memoryOf(ctx).threadweave.readDna(here(ctx), dna_id)
    if (dna_id !== undefined && strands.length === 0)
      throw new ToolError(`Nothing called "${dna_id}" is known here.`, {
        code: 'E_NOT_FOUND',
        hint: 'Without dna_id there is a list.',
      })
    return { strands: strands.map(told), total: strands.length }
  },
}

const Thread = z.object({
  dna_id: strand,
  scope: z.enum(SCOPES).default('channel').describe('Where: this channel, its category, or the whole guild.'),
  scope_id: z.string().max(200).optional().describe('Another one than the request comes from.'),
})

export const weave: ToolDef<Settings, typeof Thread> = {
  title: 'Make a text known',
  description: 'Makes a text of the vault known in a channel, a category or a guild. For admins. Not for sending it.',
  aliases: ['pin knowledge', 'attach dna', 'tisser', 'tejer'],
  tags: ['memory', 'threadweave', 'admin'],
  input: Thread,
  effect: 'write',
  idempotent: true,
  sideEffects: ['a text is known in more channels'],
  examples: [{ input: { dna_id: 'House rules', scope: 'guild' } }],
  available: forAdmins,
  async run({ dna_id, scope, scope_id }, ctx) {
    const place = placeOf(ctx, scope, scope_id)
    return { dna_id, scope, scope_id: place.id, woven: await memoryOf(ctx).threadweave.weave(dna_id, place) }
  },
}

export const unweave: ToolDef<Settings, typeof Thread> = {
  title: 'Make a text unknown',
  description: 'Takes back what weave did in one place; the text stays in the vault. For admins. Not for other places.',
  aliases: ['unpin knowledge', 'detach dna', 'détisser', 'destejer'],
  tags: ['memory', 'threadweave', 'admin'],
  input: Thread,
  effect: 'write',
  idempotent: true,
  sideEffects: ['a text is known in fewer channels'],
  examples: [{ input: { dna_id: 'House rules', scope: 'guild' } }],
  available: forAdmins,
  async run({ dna_id, scope, scope_id }, ctx) {
    const place = placeOf(ctx, scope, scope_id)
    return { dna_id, scope, scope_id: place.id, unwoven: await memoryOf(ctx).threadweave.unweave(dna_id, place) }
  },
}

const userOf = ({ origin, caller }: Context, given: string | undefined): string =>
  given?.trim() || origin.userId || caller.principal
const user = z.string().max(200).optional().describe('Id of the user; default who asks.')
const Shadow = z.object({ user_id: user })

export const shadow_get: ToolDef<Settings, typeof Shadow> = {
  title: 'Notes on a user',
  description: 'Gives the notes kept on a user: your own, or for admins those of anyone. Not for facts (recall).',
  aliases: ['user notes', 'shadow memory', 'notes sur un utilisateur', 'notas de usuario'],
  tags: ['memory', 'threadweave'],
  input: Shadow,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }],
  available,
  async run({ user_id }, ctx) {
    const id = userOf(ctx, user_id)
    return { user_id: id, content: await memoryOf(ctx).threadweave.shadowGet(id) }
  },
}

const Note = z.object({
  user_id: user,
  content: z.string().max(8_000).describe('The notes, instead of those there are; empty: none.'),
})

export const shadow_set: ToolDef<Settings, typeof Note> = {
  title: 'Write notes on a user',
  description: 'Replaces the notes kept on a user. For admins; the user can read them. Not for facts (remember).',
  aliases: ['set user notes', 'write shadow', 'écrire des notes', 'escribir notas'],
  tags: ['memory', 'threadweave', 'admin'],
  input: Note,
  effect: 'write',
  idempotent: true,
  sideEffects: ['replaces notes on a user'],
  examples: [{ input: { user_id: '42', content: 'Prefers short answers.' } }],
  available: forAdmins,
  async run({ user_id, content }, ctx) {
    const id = userOf(ctx, user_id)
    await memoryOf(ctx).threadweave.shadowSet(id, content)
    return { user_id: id, content: content === '' ? null : content }
  },
}
