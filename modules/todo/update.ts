import { type CallContext, type Llm, type ToolDef, ToolError, z } from 'pegboard'
import { FILES as CONTACTS, type Contact, contactFiles, parseContacts, reachableIds } from '../_contact-files.ts'
import { invalid, notFound, tooLarge } from '../_errors.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { llmOf, missingLlm } from '../_llm.ts'
import { telegramChat } from '../_reference-ids.ts'
import { findDone, findDuplicates, resolveReferences } from './ask.ts'
import { SETTING, type Settings } from './config.ts'
import { type Item, itemsOf, withItem, withoutItems } from './format.ts'
import { checkReferences, foldId, referencesIn, speaksOfUnknownSelf } from './references.ts'
import { type Counts, countsOf, createStore, minuteOf, textsOf } from './store.ts'

const NAME = 'todo_update'
const ACTIONS = ['add', 'complete'] as const
const MAX_CONTENT = 2_000

/** The wording of these errors is fixed by the requirements. */
const createNeededError =
  (name: string) =>
  (issue: { readonly input?: unknown }): string =>
    issue.input === undefined || issue.input === null || issue.input === ''
      ? `${name} is required`
      : `${name} must be a string`
const ARE_STRINGS = 'people must be an array of strings'

const Input = lazySchema(() =>
  z.object({
    action: z
      .enum(ACTIONS, {
        error: ({ input }) =>
          input === undefined || input === null || input === ''
            ? 'action is required'
            : `invalid action: ${describeInput(input)}`,
      })
      .describe('add: write an entry; complete: mark one as done.'),
    content: z
      .string({ error: createNeededError('content') })
      .trim()
      .min(1, 'content is required')
      .max(MAX_CONTENT)
      .describe('The entry in plain words with names, or words that identify the completed one.'),
    people: z
      .array(z.string({ error: ARE_STRINGS }), { error: ARE_STRINGS })
      .max(50)
      .optional()
      .describe('For add: everybody in the entry; $SPEAKER is the user, $AGENT is you.'),
    chat_id: z
      .string({ error: 'chat_id must be a string' })
      .optional()
      .describe('Telegram chat of the entry: tg:<number>.'),
  }),
)
type UpdateInput = z.infer<typeof Input>

const describeInput = (input: unknown): string => (typeof input === 'string' ? input.slice(0, 80) : typeof input)

interface Result {
  readonly ok: true
  readonly action: (typeof ACTIONS)[number]
  readonly updated_counts: Counts
  readonly changed: { readonly wip_added: number; readonly wip_removed: number; readonly done_added: number }
  readonly entry: { readonly created_at: string; readonly done_at: string | null; readonly content: string }
  readonly warnings?: readonly string[]
}

/** @param now clock; tests pass their own */
export function createUpdate(now: () => Date): ToolDef<Settings, typeof Input> {
  return {
    title: 'Change the to-do list',
    description:
      "Add an entry to the user's to-do list, or complete one. Name the people it is about in people; a language model finds their ids, duplicates and the completed entry. Not for reminders at a time, nor for the steps of your own work.",
    aliases: ['add todo', 'complete todo', 'todo liste', 'ajouter une tâche', 'tâche terminée', 'añadir tarea'],
    tags: ['todo', 'tasks', 'productivity'],
    input: Input,
    effect: 'write',
    available: ({ services }) => missingLlm(NAME, services, true) ?? true,
    sideEffects: ['writes TODO.md and TODO.DONE.md', 'sends entries and names of contacts to the language model'],
    examples: [
      { input: { action: 'add', content: 'Ask Bob for the invoice tomorrow', people: ['Bob', '$SPEAKER'] } },
      { input: { action: 'complete', content: 'Bob sent the invoice' } },
    ],
    run: (input, ctx) => {
      const llm = llmOf(NAME, ctx.services, true)
      return input.action === 'add' ? add(input, ctx, llm, now) : complete(input, ctx, llm, now)
    },
  }
}

async function add(input: UpdateInput, ctx: CallContext<Settings>, llm: Llm, now: () => Date): Promise<Result> {
  const { config, caller, origin, progress, log } = ctx
  const chat = chatOf(input.chat_id)
  const speaker = origin.userName || origin.userId || config.user_name
  const people = peopleOf(input.people, { $SPEAKER: speaker, $AGENT: config.agent_name })
  // An entry is one line, whatever was written.
  const newContent = input.content.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim()

  const { contacts, problems } = await contactsOf(config)
  for (const problem of problems) log.warn('a contact could not be read', { problem })
  const knownContacts = contacts.map((contact) => ({
    name: [contact.name, contact.nickname].filter((one, at, all) => one !== '' && all.indexOf(one) === at).join(' / '),
    ids: reachableIds(contact),
  }))
  const reachable = new Set(knownContacts.flatMap(({ ids }) => ids.map(foldId)))
  checkReferences(referencesIn(newContent), reachable)

  const store = createStore(config.file_state_dir, now)
  const before = await store.lists()
  const assertRoom = (openCount: number): void => {
    if (openCount >= config.max_open)
      throw tooLarge(
        `There are ${openCount} open entries; the limit is ${config.max_open}.`,
        `Complete some first; see ${SETTING}.max_open.`,
      )
  }
  assertRoom(countsOf(before).open_count)

  progress(0, 3, 'finding the people')
  const resolved = await resolveReferences(llm, {
    entry: newContent,
    people,
    speaker,
    agent: config.agent_name,
    now: `${minuteOf(now())} UTC`,
    ...(caller.turn?.message === undefined ? {} : { message: caller.turn.message.slice(0, MAX_CONTENT) }),
    contacts: knownContacts,
  })
  const references = resolved === undefined ? [] : referencesIn(resolved)
  if (references.some(({ id }) => id !== ''))
    checkReferences(
      references.filter(({ id }) => id !== ''),
      reachable,
    )
  const isResolved =
    resolved !== undefined &&
    references.length > 0 &&
    references.every(({ id }) => id !== '') &&
    !speaksOfUnknownSelf(resolved)
  const content = isResolved ? resolved : newContent
  const warnings = isResolved ? [] : ['reference_unresolved_write_raw']

  progress(1, 3, 'looking for duplicates')
  const openItems = itemsOf(before.wip)
  const duplicates = openItems.length === 0 ? [] : await findDuplicates(llm, content, textsOf(openItems))

  const created = minuteOf(now())
  const item: Item = { created, ...(chat === undefined ? {} : { chat }), content, notes: [] }
  const { counts, removed } = await store.change(({ wip }) => {
    const { list, removed } = withoutItems(
      wip,
      duplicates.flatMap((at) => openItems[at] ?? []),
    )
    assertRoom(itemsOf(list).length)
    return { wip: withItem(list, item), removed }
  })
  for (const { content: double } of removed) warnings.push(`duplicate_removed: ${double}`)
  return {
    ok: true,
    action: 'add',
    updated_counts: counts,
    changed: { wip_added: 1, wip_removed: removed.length, done_added: 0 },
    entry: { created_at: created, done_at: null, content },
    ...(warnings.length === 0 ? {} : { warnings }),
  }
}

const noMatch = (): ToolError => notFound('no matching todo item in TODO.md', 'List the open entries first.')

async function complete(
  input: UpdateInput,
  { config, progress }: CallContext<Settings>,
  llm: Llm,
  now: () => Date,
): Promise<Result> {
  const store = createStore(config.file_state_dir, now)
  const openItems = itemsOf((await store.lists()).wip)
  if (openItems.length === 0) throw noMatch()
  progress(0, 2, 'finding the entry')
  const matches = (await findDone(llm, input.content, textsOf(openItems))).flatMap((at) => openItems[at] ?? [])
  const [match] = matches
  if (match === undefined) throw noMatch()
  if (matches.length > 1)
    throw new ToolError(
      `ambiguous todo item match: ${matches
        .slice(0, 5)
        .map(({ content }) => `"${content}"`)
        .join(', ')}`,
      {
        hint: 'Name one, with the words of the entry.',
      },
    )

  const doneAt = minuteOf(now())
  const { counts, item } = await store.change((lists) => {
    const { list, removed } = withoutItems(lists.wip, [match])
    const [item] = removed
    // Another caller was faster.
    if (!item) throw noMatch()
    return { wip: list, done: withItem(lists.done, { ...item, done: doneAt }), item }
  })
  return {
    ok: true,
    action: 'complete',
    updated_counts: counts,
    changed: { wip_added: 0, wip_removed: 1, done_added: 1 },
    entry: { created_at: item.created, done_at: doneAt, content: item.content },
  }
}

function chatOf(chat: string | undefined): string | undefined {
  const text = chat?.trim() ?? ''
  if (text === '') return undefined
  const number = telegramChat(text)
  if (number === undefined)
    throw invalid(`invalid chat_id: ${text.slice(0, 80)}`, 'Leave it out, or use tg:<number> of a Telegram chat.')
  return `tg:${number}`
}

/** The people mentioned; the two placeholders become names if those are known. */
function peopleOf(names: readonly string[] | undefined, tokens: Readonly<Record<string, string>>): readonly string[] {
  const people = (names ?? []).map((name) => name.trim()).filter((name) => name !== '')
  if (people.length === 0)
    throw invalid('people is required for add action', 'Name everybody in the entry; $SPEAKER is the user.')
  return people.map((one) => (Object.hasOwn(tokens, one) && tokens[one] !== '' ? (tokens[one] as string) : one))
}

/** People who can be written to; none if the file does not exist. */
async function contactsOf({
  file_state_dir,
}: Settings): Promise<{ contacts: readonly Contact[]; problems: readonly string[] }> {
  const text = await contactFiles(file_state_dir, SETTING).read(CONTACTS.active)
  const { sections, problems } = await parseContacts(text, 'active')
  return { contacts: sections.map(({ contact }) => contact), problems }
}
