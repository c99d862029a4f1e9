import { type ToolDef, z } from 'pegboard'
import type { Contact } from '../_contact-files.ts'
import { invalid } from '../_errors.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { telegramNumber } from '../_reference-ids.ts'
import { SETTING, type Settings } from './config.ts'
import { type ContactFields, contactNotFound, createDirectory } from './contact-directory.ts'
import { findContact } from './route.ts'

const available = ({ config }: { readonly config: Settings }): true | string =>
  config.manage || `set ${SETTING}.manage to true`

const contact_id = z.string().trim().min(1).max(200).describe('The contact_id of an entry in contacts/ACTIVE.md.')

const List = lazySchema(() =>
  z.object({
    status: z.enum(['active', 'inactive', 'all']).default('active').describe('Which contacts to list.'),
  }),
)
const Get = lazySchema(() => z.object({ contact_id }))

const oneLine = (maxLength: number, description: string) =>
  z
    .string()
    .max(maxLength)
    .transform((text) => text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim())
    .optional()
    .describe(description)
const chatId = z
  .string()
  .refine((id) => id === '' || telegramNumber(id) !== undefined, 'must be a number of 64 bits, not 0')

const Upsert = lazySchema(() =>
  z.object({
    contact_id,
    name: oneLine(100, 'Name of the contact.'),
    status: z.enum(['active', 'inactive']).optional().describe('active: in use; inactive: kept.'),
    nickname: oneLine(100, 'A shorter name.'),
    kind: z.enum(['human', 'agent']).optional().describe('human (a person) or agent (a program).'),
    channel: oneLine(50, 'Their main platform, such as telegram.'),
    tg_username: oneLine(64, 'Their Telegram user name.'),
    tg_private_chat_id: chatId.optional().describe('Their private Telegram chat: a number, as text; empty for none.'),
    tg_group_chat_ids: z
      .array(chatId)
      .max(100)
      .optional()
      .describe('Telegram groups they belong to: numbers, as text.'),
    maep_node_id: oneLine(200, 'Peer id of an agent.'),
    maep_dial_address: oneLine(500, 'Address of an agent, preferably https.'),
    persona_brief: oneLine(1_000, 'Who they are, in a sentence or two.'),
    topic_preferences: z.array(z.string().max(100)).max(50).optional().describe('What they like to talk about.'),
  }),
)

const withoutEmptyFields = ({ name, status, ...fields }: Contact) => ({
  name,
  status,
  ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value.length > 0)),
})

const common = { tags: ['contacts'], available } as const

const contacts_list: ToolDef<Settings, typeof List> = {
  ...common,
  title: 'List contacts',
  description:
    'List people and agents you can write to: name, contact_id, kind, and last contact. For all details of one use contacts_get.',
  aliases: ['address book', 'list contacts', 'carnet d’adresses', 'lista de contactos'],
  input: List,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }, { input: { status: 'all' } }],
  async run({ status }, { config }) {
    const { contacts, problems } = await createDirectory(config).list()
    const matching = contacts.filter((contact) => status === 'all' || contact.status === status)
    const entries = matching.map(
      ({ name, contact_id, nickname, kind, status, cooldown_until, last_interaction_at }) => ({
        name,
        contact_id,
        ...(nickname === '' ? {} : { nickname }),
        kind,
        status,
        ...(cooldown_until === '' ? {} : { cooldown_until }),
        ...(last_interaction_at === '' ? {} : { last_interaction_at }),
      }),
    )
    return { count: entries.length, contacts: entries, ...(problems.length === 0 ? {} : { problems }) }
  },
}

const contacts_get: ToolDef<Settings, typeof Get> = {
  ...common,
  title: 'Show a contact',
  description: 'Show all details of one person or agent, by contact_id or tg:@user.',
  aliases: ['contact details', 'show contact', 'fiche contact'],
  input: Get,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { contact_id: 'tg:1001' } }],
  async run({ contact_id }, { config }) {
    const contact = findContact(contact_id, (await createDirectory(config).list()).contacts)
    if (!contact) throw contactNotFound(contact_id)
    return withoutEmptyFields(contact)
  },
}

const contacts_upsert: ToolDef<Settings, typeof Upsert> = {
  ...common,
  title: 'Add or change a contact',
  description:
    'Add a contact, or change the given fields of one; an empty value removes a field. When the list is full, the least recently contacted one becomes inactive.',
  aliases: ['add contact', 'update contact', 'ajouter un contact', 'añadir contacto'],
  input: Upsert,
  effect: 'write',
  idempotent: true,
  sideEffects: ['writes contacts/ACTIVE.md and contacts/INACTIVE.md'],
  examples: [{ input: { contact_id: 'tg:1001', name: 'Ann Lee', tg_private_chat_id: '1001' } }],
  async run({ contact_id, name, status, ...givenFields }, { config }) {
    if (/[\s\p{Cc}]/u.test(contact_id))
      throw invalid('A contact_id cannot contain spaces.', 'Use an id such as tg:1001.')
    if ([contact_id, name].some((text) => text?.includes('<!--')))
      throw invalid('A name or contact_id cannot contain "<!--".', 'Leave it out.')
    const fields = Object.fromEntries(
      Object.entries(givenFields).filter((entry): entry is [string, string | string[]] => entry[1] !== undefined),
    ) satisfies ContactFields
    const directory = createDirectory(config)
    const { created, moved } = await directory.put(contact_id, name || undefined, status, fields)
    const contact = findContact(contact_id, (await directory.list()).contacts)
    return {
      created,
      ...(moved.length === 0 ? {} : { moved_to_inactive: moved }),
      contact: contact && withoutEmptyFields(contact),
    }
  },
}

export const manage = { contacts_list, contacts_get, contacts_upsert }
