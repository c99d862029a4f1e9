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
        const byStatus: Record<Status, ContactFile> = { active: await read('active'), inactive: await read('inactive') }
        const changed = new Set<Status>()
        const replace = async (at: Status, lines: readonly string[]): Promise<void> => {
          byStatus[at] = await parseContacts(lines.join('\n'), at)
          changed.add(at)
        }
        const find = (at: Status): Section | undefined =>
          byStatus[at].sections.find(({ contact }) => contact.contact_id === contact_id)
        // All at once, because each change reads the whole file again.
        const move = async (sections: readonly Section[], from: Status, to: Status): Promise<void> => {
          const { lines } = byStatus[from]
          const movedLines = sections.flatMap(({ lineRange }) => ['', ...trimEmptyLines(lines.slice(...lineRange))])
          const movedIndexes = new Set(sections.flatMap(({ lineRange }) => range(...lineRange)))
          await replace(
            from,
            lines.filter((_line, index) => !movedIndexes.has(index)),
          )
          await replace(to, appendSection(byStatus[to].lines, TITLES[to], movedLines.slice(1)))
        }

        const oldStatus = find('active') ? 'active' : find('inactive') ? 'inactive' : undefined
        const newStatus = status ?? oldStatus ?? 'active'
        if (oldStatus === undefined) {
          const heading = `## ${name ?? contact_id}`
          const block = await changeFields(['', ''], { lines: [1, 1] }, { contact_id, ...fields })
          await replace(
            newStatus,
            appendSection(byStatus[newStatus].lines, TITLES[newStatus], [
              heading,
              '```yaml',
              ...trimEmptyLines(block),
              '```',
            ]),
          )
        } else {
          if (oldStatus !== newStatus) await move([find(oldStatus) as Section], oldStatus, newStatus)
          const section = find(newStatus) as Section
          const lines = await changeFields(byStatus[newStatus].lines, section, fields)
          await replace(newStatus, name === undefined ? lines : lines.toSpliced(section.lineRange[0], 1, `## ${name}`))
        }
        const surplus = byStatus.active.sections.length - max_active
        const oldest = byStatus.active.sections
          .filter(({ contact }) => contact.contact_id !== contact_id)
          .toSorted((a, b) => lastInteractionOf(a) - lastInteractionOf(b))
          .slice(0, Math.max(0, surplus))
        const moved = oldest.map(({ contact }) => contact.contact_id)
        if (oldest.length > 0) await move(oldest, 'active', 'inactive')
        // While it moves, a contact is briefly in both files, never in none.
        for (const at of newStatus === 'active' ? (['inactive', 'active'] as const) : (['active', 'inactive'] as const))
          if (changed.has(at)) await write(at, byStatus[at].lines)
        return { created: oldStatus === undefined, moved }
      }),
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
