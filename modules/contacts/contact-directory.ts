import type { ToolError } from 'pegboard'
import {
  type Contact,
  type ContactFile,
  contactFiles,
  FILES,
  parseContacts,
  type Section,
  type Status,
} from '../_contact-files.ts'
import { notFound } from '../_errors.ts'
import { SETTING, type Settings } from './config.ts'

export type ContactFields = Readonly<Record<string, string | readonly string[]>>

export interface ContactChange {
  readonly created: boolean
  /** Contacts moved to make room. */
  readonly moved: readonly string[]
}

/** The first lines of new files. */
const TITLES: Readonly<Record<Status, string>> = { active: '# Contacts', inactive: '# Inactive contacts' }

/** Access to `contacts/ACTIVE.md` and `contacts/INACTIVE.md`, which people and agents edit too. */
export function createDirectory({ file_state_dir, max_active }: Settings) {
  const files = contactFiles(file_state_dir, SETTING)
  const read = async (status: Status): Promise<ContactFile> => parseContacts(await files.read(FILES[status]), status)
  const write = (status: Status, lines: readonly string[]): Promise<void> =>
    files.write(FILES[status], `${lines.join('\n').trimEnd()}\n`)

  return {
    /** All contacts, active ones first, and what could not be parsed. */
    async list(): Promise<{ readonly contacts: readonly Contact[]; readonly problems: readonly string[] }> {
      const [active, inactive] = [await read('active'), await read('inactive')]
      return {
        contacts: [...active.sections, ...inactive.sections].map(({ contact }) => contact),
        problems: [...active.problems, ...inactive.problems],
      }
    },

    /** Sets fields of a contact and removes those that become empty; does nothing if the contact was removed. */
    setFields: ({ contact_id, status }: Contact, fields: ContactFields): Promise<void> =>
      files.alone(async () => {
        const file = await read(status)
        const section = file.sections.find(({ contact }) => contact.contact_id === contact_id)
        if (section) await write(status, await changeFields(file.lines, section, fields))
      }),

    /**
     * Adds or changes a contact; fields that are not given stay. If there are too many, the contact with the oldest
     * conversation is moved.
     */
    put: (
      contact_id: string,
      name: string | undefined,
      status: Status | undefined,
      fields: ContactFields,
    ): Promise<ContactChange> =>
      files.alone(async () => {
        const edit = createEdit(await read('active'), await read('inactive'))
        const oldStatus = (['active', 'inactive'] as const).find((at) => edit.find(at, contact_id))
        const newStatus = status ?? oldStatus ?? 'active'
        if (oldStatus === undefined) await edit.add(newStatus, contact_id, name ?? contact_id, fields)
        else {
          const section = edit.find(oldStatus, contact_id) as Section
          if (oldStatus !== newStatus) await edit.move([section], oldStatus, newStatus)
          await edit.change(newStatus, contact_id, name, fields)
        }
        const { sections } = edit.byStatus.active
        const oldest = sections
          .filter(({ contact }) => contact.contact_id !== contact_id)
          .toSorted((a, b) => lastInteractionOf(a) - lastInteractionOf(b))
          .slice(0, Math.max(0, sections.length - max_active))
        if (oldest.length > 0) await edit.move(oldest, 'active', 'inactive')
        // While it moves, a contact is briefly in both files, never in none.
        for (const at of newStatus === 'active' ? (['inactive', 'active'] as const) : (['active', 'inactive'] as const))
          if (edit.changed.has(at)) await write(at, edit.byStatus[at].lines)
        return { created: oldStatus === undefined, moved: oldest.map(({ contact }) => contact.contact_id) }
      }),
  }
}

/** Both files, with changes that are not written yet. */
function createEdit(active: ContactFile, inactive: ContactFile) {
  const byStatus: Record<Status, ContactFile> = { active, inactive }
  const changed = new Set<Status>()
  const replace = async (at: Status, lines: readonly string[]): Promise<void> => {
    byStatus[at] = await parseContacts(lines.join('\n'), at)
    changed.add(at)
  }
  const append = (at: Status, section: readonly string[]): Promise<void> =>
    replace(at, appendSection(byStatus[at].lines, TITLES[at], section))
  const find = (at: Status, contact_id: string): Section | undefined =>
    byStatus[at].sections.find(({ contact }) => contact.contact_id === contact_id)
  return {
    byStatus,
    changed,
    find,
    async add(at: Status, contact_id: string, name: string, fields: ContactFields): Promise<void> {
      const block = await changeFields(['', ''], { lines: [1, 1] }, { contact_id, ...fields })
      await append(at, [`## ${name}`, '```yaml', ...trimEmptyLines(block), '```'])
    },
    async change(at: Status, contact_id: string, name: string | undefined, fields: ContactFields): Promise<void> {
      const section = find(at, contact_id) as Section
      const lines = await changeFields(byStatus[at].lines, section, fields)
      await replace(at, name === undefined ? lines : lines.toSpliced(section.lineRange[0], 1, `## ${name}`))
    },
    /** Moves all at once, because each change reads the whole file again. */
    async move(sections: readonly Section[], from: Status, to: Status): Promise<void> {
      const { lines } = byStatus[from]
      const ranges = sections.map(({ lineRange }) => lineRange)
      const movedLines = ranges.flatMap((lineRange) => ['', ...trimEmptyLines(lines.slice(...lineRange))])
      const movedIndexes = new Set(ranges.flatMap((lineRange) => range(...lineRange)))
      const remaining = lines.filter((_line, index) => !movedIndexes.has(index))
      await replace(from, remaining)
      await append(to, movedLines.slice(1))
    },
  }
}

const lastInteractionOf = ({ contact }: Section): number => Date.parse(contact.last_interaction_at) || 0

/** Changes the block of one section and nothing else in the file; comments stay. */
async function changeFields(
  lines: readonly string[],
  { lines: [from, to] }: Pick<Section, 'lines'>,
  fields: ContactFields,
): Promise<readonly string[]> {
  const { parseDocument, YAMLMap } = await import('yaml')
  const document = parseDocument(lines.slice(from, to).join('\n'), { schema: 'failsafe', logLevel: 'silent' })
  if (!(document.contents instanceof YAMLMap)) document.contents = new YAMLMap() as never
  for (const [key, value] of Object.entries(fields)) {
    if (value.length === 0) document.delete(key)
    else document.set(key, document.createNode(value))
  }
  return lines.toSpliced(from, to - from, ...document.toString({ lineWidth: 0 }).trimEnd().split('\n'))
}

const range = (from: number, to: number): readonly number[] => Array.from({ length: to - from }, (_, at) => from + at)

function appendSection(lines: readonly string[], title: string, section: readonly string[]): readonly string[] {
  const before = trimEmptyLines(lines)
  return [...(before.length === 0 ? [title] : before), '', ...section]
}

/** Removes leading and trailing empty lines. */
function trimEmptyLines(lines: readonly string[]): readonly string[] {
  const isNotEmpty = (line: string): boolean => line.trim() !== ''
  const first = lines.findIndex(isNotEmpty)
  return first < 0 ? [] : lines.slice(first, lines.findLastIndex(isNotEmpty) + 1)
}

/** @throws ToolError E_NOT_FOUND */
export const contactNotFound = (contact_id: string): ToolError =>
  notFound(`contact not found: ${contact_id.slice(0, 80)}`, 'contacts_list shows the contact_id of each contact.')
