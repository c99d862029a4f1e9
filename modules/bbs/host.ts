import { denied, invalid, notFound } from '../_errors.ts'
import { type Fields, fieldsOf, listOf, numberOf, textOf } from './json.ts'
import type { Kind } from './kinds.ts'
import { findByName, findByNamePart, type NameAndCode } from './match.ts'

/** The caller as a user of the board. */
export interface BoardUser {
  readonly level: number
  readonly flags: readonly string[]
}

/** The board's data: a snapshot, or an object whose members may be functions. */
export interface Board {
  readonly msg_groups?: unknown
  readonly file_libs?: unknown
  readonly door_sections?: unknown
  readonly stats?: unknown
  /** Returns the messages of a sub-board if the snapshot has none. */
  readonly list_messages?: unknown
}

export interface ListRequest {
  readonly kind: Kind
  readonly group?: string | undefined
  readonly lib?: string | undefined
  readonly section?: string | undefined
  readonly sub?: string | undefined
  readonly limit: number
}

interface Item extends NameAndCode {
  readonly code: string
  readonly description: string
  readonly fields: Fields
  readonly open: boolean
}

const itemOf = (fields: Fields, user: BoardUser): Item => ({
  name: textOf(fields['name']),
  code: textOf(fields['code']),
  description: textOf(fields['description']),
  fields,
  open: mayEnter(fields['access'], user),
})

const ACCESS = new Set(['min_level', 'flags', 'public'])

/**
 * Open to all unless restricted; `public: false` alone excludes guests. An access rule that cannot be parsed excludes
 * everyone.
 */
function mayEnter(access: unknown, { level, flags }: BoardUser): boolean {
  if (access === undefined || access === null) return true
  if (typeof access !== 'object' || Array.isArray(access) || !Object.keys(access).every((key) => ACCESS.has(key)))
    return false
  const { min_level, flags: needed = [], public: isPublic } = access as Fields
  if (isPublic === true) return true
  if (isPublic !== undefined && isPublic !== false) return false
  const least = min_level === undefined ? (isPublic === false ? 1 : 0) : levelOf(min_level)
  return level >= least && Array.isArray(needed) && needed.every((flag) => flags.includes(flag))
}

const levelOf = (value: unknown): number =>
  typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value)) ? Number(value) : Number.NaN

interface Parent extends Item {
  readonly children: readonly Item[]
}

/** The part of a two-level list that this user may see, without empty parents. */
function visible(parents: unknown, childrenKey: string, user: BoardUser): readonly Parent[] {
  return listOf(parents)
    .map((fields) => ({
      ...itemOf(fields, user),
      children: listOf(fields[childrenKey])
        .map((child) => itemOf(child, user))
        .filter(({ open }) => open),
    }))
    .filter(({ open, children }) => open && children.length > 0)
}

/** A group named by a number only is a placeholder. */
const isPlaceholder = (name: string): boolean => /^\d+$/.test(name)

const groupsOf = (groups: unknown, user: BoardUser): readonly Parent[] =>
  visible(groups, 'subs', user).filter(({ name }) => !isPlaceholder(name))

const namesOf = (all: readonly Item[]): string => all.map(({ name }) => name).join(', ') || 'none'

/** @throws ToolError with a message for the model */
function parentOf(all: readonly Parent[], name: string | undefined, kind: Kind, parameter: string): Parent {
  if (!name?.trim()) throw invalid(`${kind} needs "${parameter}".`, `There are: ${namesOf(all)}.`)
  return findByNamePart(all, name) ?? missing(all, name, parameter)
}

function missing(all: readonly Item[], name: string, what: string): never {
  throw notFound(`Unknown ${what}: "${name.slice(0, 80)}".`, `There are: ${namesOf(all).slice(0, 1_000)}.`)
}

const brief = ({ name, code, description }: Item) => ({ ...(code === '' ? {} : { code }), name, description })

/**
 * Answers a question about the board, limited to what this user may see.
 * @throws ToolError with a message for the model
 */
export async function describe(board: Board, user: BoardUser, request: ListRequest, now: number): Promise<Fields> {
  const { kind, limit } = request
  const cut = (children: readonly Item[]) => ({
    count: children.length,
    shown: Math.min(limit, children.length),
    list: children.slice(0, limit).map(brief),
  })
  const groups = async (): Promise<readonly Parent[]> => groupsOf(await current(board.msg_groups), user)
  const listed = (all: readonly Parent[]) => ({
    kind: 'groups',
    count: all.length,
    groups: all.map(({ name, description, children }) => ({ name, description, sub_count: children.length })),
  })
  switch (kind) {
    case 'groups':
      return listed(await groups())
    case 'subs': {
      const all = await groups()
      if (!request.group?.trim())
        return { ...listed(all), _note: 'These are the groups: pass one as "group" to list its subs.' }
      const group = findByNamePart(all, request.group) ?? missing(all, request.group, 'group')
      const { list, ...counts } = cut(group.children)
      return { kind, group: group.name, ...counts, subs: list }
    }
    case 'libs': {
      const all = visible(await current(board.file_libs), 'dirs', user)
      return {
        kind,
        count: all.length,
        libs: all.map(({ name, description, children }) => ({ name, description, dir_count: children.length })),
      }
    }
    case 'dirs': {
      const lib = parentOf(visible(await current(board.file_libs), 'dirs', user), request.lib, kind, 'lib')
      const { list, ...counts } = cut(lib.children)
      return { kind, library: lib.name, ...counts, dirs: list }
    }
    case 'door_sections': {
      const all = visible(await current(board.door_sections), 'programs', user)
      return {
        kind,
        count: all.length,
        sections: all.map(({ name, description, children }) => ({ name, description, program_count: children.length })),
      }
    }
    case 'doors': {
      const all = visible(await current(board.door_sections), 'programs', user)
      const section = parentOf(all, request.section, kind, 'section')
      const { list, ...counts } = cut(section.children)
      return { kind, section: section.name, ...counts, doors: list }
    }
    case 'recent_messages':
      return await recentMessages(board, user, request, now)
    case 'stats':
      return { kind, ...statsOf(await current(board.stats)) }
  }
}

async function recentMessages(board: Board, user: BoardUser, { sub: subName, limit }: ListRequest, now: number) {
  const all = listOf(await current(board.msg_groups)).flatMap((group) =>
    mayEnter(group['access'], user) && !isPlaceholder(textOf(group['name']))
      ? listOf(group['subs']).map((sub) => ({ ...itemOf(sub, user), group: textOf(group['name']) }))
      : [],
  )
  const open = all.filter((sub) => sub.open)
  if (!subName?.trim()) throw invalid('recent_messages needs "sub".', `There are: ${namesOf(open).slice(0, 1_000)}.`)
  // Closed subs are matched by full name only, or their names could be guessed letter by letter.
  const sub = findByNamePart(open, subName) ?? findByName(all, subName) ?? missing(open, subName, 'sub')
  if (!sub.open)
    throw denied(`${sub.name} is not publicly readable.`, 'Say so; its messages cannot be read any other way.')
  const { list_messages } = board
  const given =
    typeof list_messages === 'function'
      ? await (list_messages as (code: string, limit: number) => unknown)(sub.code, limit)
      : sub.fields['messages']
  const messages = listOf(given)
    .filter(({ vote, type }) => vote !== true && type !== 'vote' && type !== 'poll_vote')
    .map((fields) => ({ fields, at: timeOf(fields['when_written']), number: numberOf(fields['number']) }))
    .sort((a, b) => b.at - a.at || b.number - a.number)
  return {
    kind: 'recent_messages',
    sub: sub.name,
    sub_code: sub.code,
    group: sub.group,
    total: messages.length,
    shown: Math.min(limit, messages.length),
    messages: messages.slice(0, limit).map(({ fields, at, number }) => ({
      number,
      from: textOf(fields['from']),
      to: textOf(fields['to']),
      subject: textOf(fields['subject']),
      when_written: at === 0 ? '' : `${new Date(at).toISOString().slice(0, 19)} UTC`,
      age_seconds: at === 0 ? null : Math.max(0, Math.floor((now - at) / 1_000)),
    })),
  }
}

/** Seconds since the epoch, or a date as text; 0 if missing. */
function timeOf(value: unknown): number {
  const ms = typeof value === 'number' ? value * 1_000 : Date.parse(textOf(value).replace(/ UTC$/, 'Z'))
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? ms : 0
}

function statsOf(value: unknown): Fields {
  const { today, lifetime } = fieldsOf(value)
  const counts = (given: unknown): Fields =>
    Object.fromEntries(
      Object.entries(fieldsOf(given)).flatMap(([key, number]) =>
        typeof number === 'number' ? [[key, /^bytes_|_bytes$/.test(key) ? bytes(number) : number]] : [],
      ),
    )
  return { today: counts(today), lifetime: counts(lifetime) }
}

const UNITS = [
  ['TiB', 4, 2],
  ['GiB', 3, 2],
  ['MiB', 2, 1],
  ['KiB', 1, 0],
] as const

export function bytes(count: number): string {
  for (const [unit, power, decimals] of UNITS)
    if (count >= 1024 ** power) return `${(count / 1024 ** power).toFixed(decimals)} ${unit}`
  return `${count} B`
}

/** The current value of a member, which may be a function. */
const current = async (member: unknown): Promise<unknown> =>
  typeof member === 'function' ? await (member as () => unknown)() : member
