import { isPegboardError, type ToolError } from 'pegboard'
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

const EMPTY: Readonly<Record<Status, string>> = { active: '# Contacts', inactive: '# Inactive contacts' }

/** Access to `contacts/ACTIVE.md` and `contacts/INACTIVE.md`, which people and agents edit too. */
export function createDirectory({ file_state_dir, max_active }: Settings) {
  const files = contactFiles(file_state_dir, SETTING)
  const read = async (status: Status): Promise<ContactFile> => parseContacts(await files.read(FILES[status]), status)
  const write = (status: Status, lines: readonly string[]): Promise<void> =>
    files.write(FILES[status], `${lines.join('\n').trimEnd()}\n`)

  return {
    /** All contacts, active ones first, and what could not be parsed. */
    async all(): Promise<{ readonly contacts: readonly Contact[]; readonly problems: readonly string[] }> {
      const [active, inactive] = [await read('active'), await read('inactive')]
      return {
        contacts: [...active.sections, ...inactive.sections].map(({ contact }) => contact),
        problems: [...active.problems, ...inactive.problems],
      }
    },

    /** Sets fields of a contact and removes those that become empty; does nothing if the contact is gone. */
    note: ({ contact_id, status }: Contact, fields: ContactFields): Promise<void> =>
      files.alone(async () => {
        const file = await read(status)
        const section = file.sections.find(({ contact }) => contact.contact_id === contact_id)
        if (section) await write(status, await withFields(file.lines, section, fields))
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
        const lists: Record<Status, ContactFile> = { active: await read('active'), inactive: await read('inactive') }
        const dirty = new Set<Status>()
        const replace = async (at: Status, lines: readonly string[]): Promise<void> => {
          lists[at] = await parseContacts(lines.join('\n'), at)
          dirty.add(at)
        }
        const find = (at: Status): Section | undefined =>
          lists[at].sections.find(({ contact }) => contact.contact_id === contact_id)
        // All at once, because each change reads the whole file again.
        const move = async (sections: readonly Section[], from: Status, to: Status): Promise<void> => {
          const { lines } = lists[from]
          const taken = sections.flatMap(({ lineRange }) => ['', ...trimEmptyLines(lines.slice(...lineRange))])
          const gone = new Set(sections.flatMap(({ lineRange: [first, end] }) => range(first, end)))
          await replace(
            from,
            lines.filter((_line, at) => !gone.has(at)),
          )
          await replace(to, appendSection(lists[to].lines, EMPTY[to], taken.slice(1)))
        }

        const before = find('active') ? 'active' : find('inactive') ? 'inactive' : undefined
        const at = status ?? before ?? 'active'
        if (before === undefined) {
          const heading = `## ${name ?? contact_id}`
          const block = await withFields(['', ''], { lines: [1, 1] }, { contact_id, ...fields })
          await replace(
            at,
            appendSection(lists[at].lines, EMPTY[at], [heading, '```yaml', ...trimEmptyLines(block), '```']),
          )
        } else {
          if (before !== at) await move([find(before) as Section], before, at)
          const section = find(at) as Section
          const lines = await withFields(lists[at].lines, section, fields)
          await replace(at, name === undefined ? lines : lines.toSpliced(section.lineRange[0], 1, `## ${name}`))
        }
        const surplus = lists.active.sections.length - max_active
        const oldest = lists.active.sections
          .filter(({ contact }) => contact.contact_id !== contact_id)
          .toSorted((a, b) => lastOf(a) - lastOf(b))
          .slice(0, Math.max(0, surplus))
        const moved = oldest.map(({ contact }) => contact.contact_id)
        if (oldest.length > 0) await move(oldest, 'active', 'inactive')
        // While it moves, a contact is briefly in both files, never in none.
        for (const list of at === 'active' ? (['inactive', 'active'] as const) : (['active', 'inactive'] as const))
          if (dirty.has(list)) await write(list, lists[list].lines)
        return { created: before === undefined, moved }
      }),
  }
}

export type Directory = ReturnType<typeof createDirectory>

const lastOf = ({ contact }: Section): number => Date.parse(contact.last_interaction_at) || 0

/** Changes the block of one section and nothing else in the file; comments stay. */
async function withFields(
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

function appendSection(lines: readonly string[], heading: string, section: readonly string[]): readonly string[] {
  const before = trimEmptyLines(lines)
  return [...(before.length === 0 ? [heading] : before), '', ...section]
}

/** Removes leading and trailing empty lines. */
function trimEmptyLines(lines: readonly string[]): readonly string[] {
  const isFull = (line: string): boolean => line.trim() !== ''
  const first = lines.findIndex(isFull)
  return first < 0 ? [] : lines.slice(first, lines.findLastIndex(isFull) + 1)
}

/** @throws ToolError E_NOT_FOUND */
export const contactNotFound = (contact_id: string): ToolError =>
  notFound(`contact not found: ${contact_id.slice(0, 80)}`, 'contacts_list shows the contact_id of each contact.')

/** True if sending was refused by policy, rather than failed on the way. */
export const isRefusal = (error: unknown): boolean =>
  isPegboardError(error) &&
  ['E_SSRF_BLOCKED', 'E_REDIRECT_BLOCKED', 'E_DENIED_BY_POLICY', 'E_VALIDATION', 'E_TOO_LARGE'].includes(error.code)
