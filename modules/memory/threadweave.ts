import { type Place, type Strand, type ToolDef, type ToolView, type WeaveScope, z } from 'pegboard'
import { isAdmin } from '../_admin.ts'
import { invalid, notFound } from '../_errors.ts'
import { type Context, has, memoryOf, type Settings } from './config.ts'

const available = has('threadweave')
const forAdmins = (view: ToolView<Settings>): true | string => {
  const availability = available(view)
  if (availability !== true) return availability
  return isAdmin(view) || 'for admins: the flag "admin" of the profile'
}

const SCOPES = ['channel', 'category', 'guild'] as const
const strand = z.string().trim().min(1).max(200).describe('Id or title of the text.')
const shownStrand = ({ id, title, content, at }: Strand) => ({
  dna_id: id,
  title,
  content,
  since: new Date(at).toISOString(),
})

/** Places of the request, from near to far. */
function placesOf({ origin: { channelId, categoryId = '', guildId } }: Context): readonly Place[] {
  const places: readonly Place[] = [
    { scope: 'channel', id: channelId },
    { scope: 'category', id: categoryId },
    { scope: 'guild', id: guildId },
  ]
  return places.filter(({ id }) => id !== '')
}

/** @throws ToolError if the request does not come from such a place */
function placeOf(ctx: Context, scope: WeaveScope, given: string | undefined): Place {
  const id = given?.trim() || placesOf(ctx).find((place) => place.scope === scope)?.id
  if (id) return { scope, id }
  throw invalid(`The ${scope} is unknown.`, 'Pass scope_id.')
}

const Dna = z.object({
  title: z.string().trim().min(1).max(200).describe('Title. A text with the same title is replaced.'),
  content: z.string().min(1).max(8_000).describe('The text.'),
})

export const vault_dna: ToolDef<Settings, typeof Dna> = {
  title: 'Store a text',
  description:
    'Store a text in the vault; weave then assigns it to channels. For admins; use it for rules and background of a community. Not for facts about one user (remember).',
  aliases: ['store dna', 'vault', 'conserver', 'guardar texto'],
  tags: ['memory', 'threadweave', 'admin'],
  input: Dna,
  effect: 'write',
  idempotent: true,
  sideEffects: ['stores or replaces a text'],
  examples: [{ input: { title: 'House rules', content: 'Be kind.' } }],
  available: forAdmins,
  run: async ({ title, content }, ctx) => shownStrand(await memoryOf(ctx).threadweave.vaultDna(title, content)),
}

const Read = z.object({ dna_id: strand.optional().describe('Id or title; default all texts of this place.') })

export const read_dna: ToolDef<Settings, typeof Read> = {
  title: 'Texts of this place',
  description:
    'Read the texts assigned to this channel, its category or its guild. Use it for rules and background of the place you are in. Not for facts about a user (recall).',
  aliases: ['channel knowledge', 'read weave', 'règles du salon', 'reglas del canal'],
  tags: ['memory', 'threadweave'],
  input: Read,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }],
  available,
  async run({ dna_id }, ctx) {
    const strands = await memoryOf(ctx).threadweave.readDna(placesOf(ctx), dna_id)
    if (dna_id !== undefined && strands.length === 0)
      throw notFound(`No text "${dna_id}" is assigned here.`, 'Call it without dna_id to list them.')
    return { strands: strands.map(shownStrand), total: strands.length }
  },
}

const Thread = z.object({
  dna_id: strand,
  scope: z.enum(SCOPES).default('channel').describe('Place: this channel, its category, or the whole guild.'),
  scope_id: z.string().max(200).optional().describe('Another place than that of the request.'),
})

export const weave: ToolDef<Settings, typeof Thread> = {
  title: 'Assign a text',
  description: 'Assign a text of the vault to a channel, a category or a guild. For admins. Does not send it.',
  aliases: ['pin knowledge', 'attach dna', 'tisser', 'tejer'],
  tags: ['memory', 'threadweave', 'admin'],
  input: Thread,
  effect: 'write',
  idempotent: true,
  sideEffects: ['more channels see the text'],
  examples: [{ input: { dna_id: 'House rules', scope: 'guild' } }],
  available: forAdmins,
  async run({ dna_id, scope, scope_id }, ctx) {
    const place = placeOf(ctx, scope, scope_id)
    return { dna_id, scope, scope_id: place.id, woven: await memoryOf(ctx).threadweave.weave(dna_id, place) }
  },
}

export const unweave: ToolDef<Settings, typeof Thread> = {
  title: 'Unassign a text',
  description: 'Undo weave in one place; the text stays in the vault. For admins. Not for other places.',
  aliases: ['unpin knowledge', 'detach dna', 'détisser', 'destejer'],
  tags: ['memory', 'threadweave', 'admin'],
  input: Thread,
  effect: 'write',
  idempotent: true,
  sideEffects: ['fewer channels see the text'],
  examples: [{ input: { dna_id: 'House rules', scope: 'guild' } }],
  available: forAdmins,
  async run({ dna_id, scope, scope_id }, ctx) {
    const place = placeOf(ctx, scope, scope_id)
    return { dna_id, scope, scope_id: place.id, unwoven: await memoryOf(ctx).threadweave.unweave(dna_id, place) }
  },
}

const userOf = ({ origin, caller }: Context, userId: string | undefined): string =>
  userId?.trim() || origin.userId || caller.principal
const user = z.string().max(200).optional().describe('Id of the user; default the caller.')
const Shadow = z.object({ user_id: user })

export const shadow_get: ToolDef<Settings, typeof Shadow> = {
  title: 'Notes on a user',
  description: 'Read the notes on a user: your own, or for admins those of anyone. Not for facts (recall).',
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
  content: z.string().max(8_000).describe('New notes, replacing the old ones; empty deletes them.'),
})

export const shadow_set: ToolDef<Settings, typeof Note> = {
  title: 'Write notes on a user',
  description: 'Replace the notes on a user. For admins; the user can read them. Not for facts (remember).',
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
