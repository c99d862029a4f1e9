import { staysInComment } from '../_contact-files.ts'

export type Kind = 'wip' | 'done'

/** One entry of a list. Times are `YYYY-MM-DD hh:mm`, UTC. */
export interface Item {
  readonly created: string
  readonly done?: string
  /** `tg:<number>` */
  readonly chat?: string
  readonly content: string
  /** Indented lines that people wrote below it. */
  readonly notes: readonly string[]
}

/** A file as it is kept: entries, and around them whatever else is in it. */
export interface List {
  readonly kind: Kind
  /** Lines between the two `---`. */
  readonly front: readonly string[]
  readonly body: ReadonlyArray<string | Item>
}

export const FILES: Readonly<Record<Kind, string>> = { wip: 'TODO.md', done: 'TODO.DONE.md' }
const HEADING: Readonly<Record<Kind, string>> = { wip: '# TODO Work In Progress (WIP)', done: '# TODO Done' }
const COUNT: Readonly<Record<Kind, string>> = { wip: 'open_count', done: 'done_count' }

const TIME = '\\d{4}-\\d{2}-\\d{2} \\d{2}:\\d{2}'
const CHAT = '(?:, \\[ChatID\\]\\((?<chat>tg:-?\\d+)\\))?'
const LINE: Readonly<Record<Kind, RegExp>> = {
  wip: new RegExp(`^- \\[ \\] \\[Created\\]\\((?<created>${TIME})\\)${CHAT} \\| (?<content>.+)$`),
  done: new RegExp(
    `^- \\[[xX]\\] \\[Created\\]\\((?<created>${TIME})\\), \\[Done\\]\\((?<done>${TIME})\\)${CHAT} \\| (?<content>.+)$`,
  ),
}

/** Parses a file of any author. Lines that are not entries stay unchanged, and comments contain no entries. */
export function parseList(text: string, kind: Kind): List {
  const lines = text === '' ? [] : text.replace(/^\uFEFF/, '').split(/\r?\n/)
  const end = lines[0] === '---' ? lines.indexOf('---', 1) : -1
  const front = end > 0 ? lines.slice(1, end) : []
  const body: Array<string | (Item & { readonly notes: string[] })> = []
  let inComment = false
  for (const line of lines.slice(end > 0 ? end + 1 : 0)) {
    // What an entry says cannot begin a comment, or one could hide all that follow.
    const item = inComment ? undefined : itemOf(line, kind)
    const last = body.at(-1)
    if (item) body.push(item)
    else if (!inComment && typeof last === 'object' && /^(?: {2,}|\t)\S/.test(line)) last.notes.push(line)
    else body.push(line)
    if (!item) inComment = staysInComment(line, inComment)
  }
  return { kind, front, body }
}

function itemOf(line: string, kind: Kind): (Item & { readonly notes: string[] }) | undefined {
  const { created, done, chat, content } = LINE[kind].exec(line.trimEnd())?.groups ?? {}
  if (created === undefined || content === undefined) return undefined
  return {
    created,
    ...(done === undefined ? {} : { done }),
    ...(chat === undefined ? {} : { chat }),
    content,
    notes: [],
  }
}

/** @param now when the file is written, as `2026-01-02T03:04:05Z` */
export function printList({ kind, front, body }: List, now: string): string {
  const count = body.filter((entry) => typeof entry === 'object').length
  const otherLines = front.filter((line) => !/^(?:updated_at|open_count|done_count):/.test(line))
  const created = otherLines.some((line) => line.startsWith('created_at:')) ? [] : [`created_at: "${now}"`]
  const head = ['---', ...created, ...otherLines, `updated_at: "${now}"`, `${COUNT[kind]}: ${count}`, '---']
  const entryLines =
    body.length === 0
      ? ['', HEADING[kind], '']
      : body.flatMap((entry) => (typeof entry === 'string' ? [entry] : printItem(entry)))
  return `${[...head, ...entryLines].join('\n').trimEnd()}\n`
}

function printItem({ created, done, chat, content, notes }: Item): readonly string[] {
  const checkbox = done === undefined ? `- [ ] [Created](${created})` : `- [x] [Created](${created}), [Done](${done})`
  return [`${checkbox}${chat === undefined ? '' : `, [ChatID](${chat})`} | ${content}`, ...notes]
}

export const itemsOf = ({ body }: List): readonly Item[] =>
  body.filter((entry): entry is Item => typeof entry === 'object')

/** The newest comes first. */
export function withItem(list: List, item: Item): List {
  const first = list.body.findIndex((entry) => typeof entry === 'object')
  if (first >= 0) return { ...list, body: list.body.toSpliced(first, 0, item) }
  const heading = list.body.indexOf(HEADING[list.kind])
  if (heading >= 0) return { ...list, body: list.body.toSpliced(heading + 1, 0, '', item) }
  return { ...list, body: ['', HEADING[list.kind], '', item, ...list.body] }
}

/** Removes items. Some of them may be missing already, so the result has the removed ones, too. */
export function withoutItems(
  list: List,
  items: readonly Item[],
): { readonly list: List; readonly removed: readonly Item[] } {
  const remaining = [...items]
  const removed: Item[] = []
  const body = list.body.filter((entry) => {
    const index = typeof entry === 'object' ? remaining.findIndex((other) => isSame(entry, other)) : -1
    if (index < 0) return true
    remaining.splice(index, 1)
    removed.push(entry as Item)
    return false
  })
  return { list: { ...list, body }, removed }
}

const isSame = (a: Item, b: Item): boolean => a.created === b.created && a.chat === b.chat && a.content === b.content
