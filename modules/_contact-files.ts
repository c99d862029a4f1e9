import { isRecord } from './_is-record.ts'
import { isReferenceId, telegramNumber } from './_reference-ids.ts'
import { type StateFiles, stateFiles } from './_state-files.ts'

/** A contact from `contacts/ACTIVE.md` or `contacts/INACTIVE.md`. Missing fields are empty strings. */
export interface Contact {
  /** The heading of its section. */
  readonly name: string
  readonly status: Status
  readonly contact_id: string
  readonly nickname: string
  readonly kind: 'human' | 'agent'
  readonly channel: string
  readonly tg_username: string
  /** 64-bit ids as text. */
  readonly tg_private_chat_id: string
  readonly tg_group_chat_ids: readonly string[]
  readonly maep_node_id: string
  readonly maep_dial_address: string
  readonly persona_brief: string
  readonly topic_preferences: readonly string[]
  readonly cooldown_until: string
  readonly last_interaction_at: string
}
export type Status = 'active' | 'inactive'

export const FILES: Readonly<Record<Status, string>> = {
  active: 'contacts/ACTIVE.md',
  inactive: 'contacts/INACTIVE.md',
}

/** A contact and its position in the file. */
export interface Section {
  readonly contact: Contact
  /** The lines of its YAML block, without the fences. */
  readonly lines: readonly [from: number, to: number]
  /** The lines of the whole section. */
  readonly lineRange: readonly [from: number, to: number]
}

export interface ContactFile {
  readonly lines: readonly string[]
  readonly sections: readonly Section[]
  /** Parse errors, in words for people. */
  readonly problems: readonly string[]
}

/** Parses `##` headings with one fenced YAML block each; comments and other text are ignored. */
export async function parseContacts(text: string, status: Status): Promise<ContactFile> {
  const lines = text.split(/\r?\n/)
  const sections: Section[] = []
  const problems: string[] = []
  for (const { name, block, lineRange } of blocksOf(lines)) {
    if (!block) continue
    const fields = await fieldsOf(lines.slice(...block).join('\n'))
    const contact_id = string(fields?.['contact_id'])
    if (!fields) problems.push(`${FILES[status]}: the block of "${name}" is not YAML`)
    else if (contact_id === '') problems.push(`${FILES[status]}: "${name}" has no contact_id`)
    else sections.push({ contact: contactOf(name, status, contact_id, fields), lines: block, lineRange })
  }
  return { lines, sections, problems }
}

interface Block {
  readonly name: string
  readonly block?: readonly [number, number]
  readonly lineRange: readonly [number, number]
}

function blocksOf(lines: readonly string[]): readonly Block[] {
  const blocks: Array<{ name: string; start: number; block?: readonly [number, number] }> = []
  let inComment = false
  let fence: { readonly start: number; readonly yaml: boolean } | undefined
  for (const [index, line] of lines.entries()) {
    if (fence) {
      if (!/^```\s*$/.test(line)) continue
      const last = blocks.at(-1)
      if (fence.yaml && last && !last.block) last.block = [fence.start + 1, index]
      fence = undefined
      continue
    }
    const visible = inComment ? '' : line
    inComment = staysInComment(line, inComment)
    const heading = /^##\s+(.+?)\s*$/.exec(visible)
    if (heading) blocks.push({ name: heading[1] as string, start: index })
    else if (/^```/.test(visible)) fence = { start: index, yaml: /^```ya?ml\s*$/i.test(visible) }
  }
  return blocks.map((block, index) => ({
    name: block.name,
    lineRange: [block.start, blocks[index + 1]?.start ?? lines.length],
    ...(block.block === undefined ? {} : { block: block.block }),
  }))
}

/** True if an HTML comment is open at the end of a line. */
export function staysInComment(line: string, inComment: boolean): boolean {
  let isOpen = inComment
  for (let index = 0; ; ) {
    const nextMark = line.indexOf(isOpen ? '-->' : '<!--', index)
    if (nextMark < 0) return isOpen
    index = nextMark + (isOpen ? 3 : 4)
    isOpen = !isOpen
  }
}

/** All values as text, because chat ids do not fit into JavaScript numbers. */
async function fieldsOf(yaml: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  const { parseDocument } = await import('yaml')
  const document = parseDocument(yaml, { schema: 'failsafe', logLevel: 'silent' })
  if (document.errors.length > 0) return undefined
  try {
    const fields: unknown = document.toJS()
    return isRecord(fields) ? fields : undefined
  } catch {
    // The YAML contains circular or too many aliases.
    return undefined
  }
}

const string = (value: unknown): string =>
  typeof value === 'string' && value !== 'null' && value !== '~' ? value.trim() : ''
const strings = (value: unknown): readonly string[] =>
  (Array.isArray(value) ? value : [value]).map(string).filter((text) => text !== '')

function contactOf(
  name: string,
  status: Status,
  contact_id: string,
  fields: Readonly<Record<string, unknown>>,
): Contact {
  const chats = strings(fields['tg_group_chat_ids']).flatMap((id) => telegramNumber(id) ?? [])
  return {
    name,
    status,
    contact_id,
    nickname: string(fields['nickname']),
    kind: string(fields['kind']).toLowerCase() === 'agent' ? 'agent' : 'human',
    channel: string(fields['channel']),
    tg_username: string(fields['tg_username']).replace(/^@/, ''),
    tg_private_chat_id: telegramNumber(string(fields['tg_private_chat_id'])) ?? '',
    tg_group_chat_ids: [...new Set(chats)],
    maep_node_id: string(fields['maep_node_id']).replace(/^maep:/, ''),
    maep_dial_address: string(fields['maep_dial_address']),
    persona_brief: string(fields['persona_brief']),
    topic_preferences: strings(fields['topic_preferences']),
    cooldown_until: string(fields['cooldown_until']),
    last_interaction_at: string(fields['last_interaction_at']),
  }
}

export const contactFiles = (dir: string, setting: string): StateFiles => stateFiles(dir, '.contacts.lock', setting)

/** Ids to which a message to this contact would be delivered. */
export function reachableIds(contact: Contact): readonly string[] {
  const { contact_id, tg_private_chat_id, tg_group_chat_ids, tg_username, maep_node_id } = contact
  const ids = [
    contact_id,
    ...[tg_private_chat_id, ...tg_group_chat_ids].flatMap((id) => (id === '' ? [] : [`tg:${id}`])),
    ...(tg_username === '' ? [] : [`tg:@${tg_username}`]),
    ...(maep_node_id === '' ? [] : [`maep:${maep_node_id}`]),
  ]
  return [...new Set(ids.filter(isReferenceId))]
}
