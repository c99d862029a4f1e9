import { denied, invalid, notFound } from '../_errors.ts'
import { asRecord, isRecord, type Json } from '../_is-record.ts'
import { listOf, numberOf, textOf } from './json.ts'
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
  readonly fields: Json
  readonly isOpen: boolean
}

const createItem = (fields: Json, user: BoardUser): Item => ({
  name: textOf(fields['name']),
  code: textOf(fields['code']),
  description: textOf(fields['description']),
  fields,
  isOpen: canEnter(fields['access'], user),
})

const ACCESS_KEYS = new Set(['min_level', 'flags', 'public'])

/**
 * Open to all unless restricted; `public: false` alone excludes guests. An access rule that cannot be parsed excludes
 * everyone.
 */
function canEnter(access: unknown, { level, flags }: BoardUser): boolean {
  if (access === undefined || access === null) return true
  if (!isRecord(access) || !Object.keys(access).every((key) => ACCESS_KEYS.has(key))) return false
  const { min_level, flags: requiredFlags = [], public: isPublic } = access
  if (isPublic === true) return true
  if (isPublic !== undefined && isPublic !== false) return false
  const minLevel = min_level === undefined ? (isPublic === false ? 1 : 0) : parseLevel(min_level)
  return level >= minLevel && Array.isArray(requiredFlags) && requiredFlags.every((flag) => flags.includes(flag))
}

/** NaN if it is not a level: then no level is high enough. */
const parseLevel = (value: unknown): number =>
  typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value)) ? Number(value) : Number.NaN

interface Parent extends Item {
  readonly children: readonly Item[]
}

/** The part of a two-level list that this user may see, without empty parents. */
function visibleParents(parents: unknown, childrenKey: string, user: BoardUser): readonly Parent[] {
  return listOf(parents)
    .map((fields) => ({
      ...createItem(fields, user),
      children: listOf(fields[childrenKey])
        .map((child) => createItem(child, user))
        .filter(({ isOpen }) => isOpen),
    }))
    .filter(({ isOpen, children }) => isOpen && children.length > 0)
}

/** A group named by a number only is a placeholder. */
const isPlaceholder = (name: string): boolean => /^\d+$/.test(name)

const namesOf = (items: readonly Item[]): string => items.map(({ name }) => name).join(', ') || 'none'

/** @throws ToolError with a message for the model */
function requireParent(parents: readonly Parent[], name: string | undefined, kind: Kind, parameter: string): Parent {
  if (!name?.trim()) throw invalid(`${kind} needs "${parameter}".`, `There are: ${namesOf(parents)}.`)
  return findByNamePart(parents, name) ?? throwUnknown(parents, name, parameter)
}

function throwUnknown(items: readonly Item[], name: string, type: string): never {
  throw notFound(`Unknown ${type}: "${name.slice(0, 80)}".`, `There are: ${namesOf(items).slice(0, 1_000)}.`)
}

const summaryOf = ({ name, code, description }: Item) => ({ ...(code === '' ? {} : { code }), name, description })

/**
 * Answers a question about the board, limited to what this user may see.
 * @throws ToolError with a message for the model
 */
export async function describeBoard(board: Board, user: BoardUser, request: ListRequest, now: number): Promise<Json> {
  const { kind, limit } = request
  const countsOf = (children: readonly Item[]) => ({
    count: children.length,
    shown: Math.min(limit, children.length),
  })
  const summariesOf = (children: readonly Item[]) => children.slice(0, limit).map(summaryOf)
  const loadGroups = async () =>
    visibleParents(await resolveMember(board.msg_groups), 'subs', user).filter(({ name }) => !isPlaceholder(name))
  const loadLibraries = async () => visibleParents(await resolveMember(board.file_libs), 'dirs', user)
  const loadSections = async () => visibleParents(await resolveMember(board.door_sections), 'programs', user)
  const groupListOf = (groups: readonly Parent[]) => ({
    kind: 'groups',
    count: groups.length,
    groups: groups.map(({ name, description, children }) => ({ name, description, sub_count: children.length })),
  })
  switch (kind) {
    case 'groups':
      return groupListOf(await loadGroups())
    case 'subs': {
      const groups = await loadGroups()
      if (!request.group?.trim())
        return { ...groupListOf(groups), _note: 'These are the groups: pass one as "group" to list its subs.' }
      const { name, children } = requireParent(groups, request.group, kind, 'group')
      return { kind, group: name, ...countsOf(children), subs: summariesOf(children) }
    }
    case 'libs': {
      const libraries = await loadLibraries()
      return {
        kind,
        count: libraries.length,
        libs: libraries.map(({ name, description, children }) => ({ name, description, dir_count: children.length })),
      }
    }
    case 'dirs': {
      const { name, children } = requireParent(await loadLibraries(), request.lib, kind, 'lib')
      return { kind, library: name, ...countsOf(children), dirs: summariesOf(children) }
    }
    case 'door_sections': {
      const sections = await loadSections()
      return {
        kind,
        count: sections.length,
        sections: sections.map(({ name, description, children }) => ({
          name,
          description,
          program_count: children.length,
        })),
      }
    }
    case 'doors': {
      const { name, children } = requireParent(await loadSections(), request.section, kind, 'section')
      return { kind, section: name, ...countsOf(children), doors: summariesOf(children) }
    }
    case 'recent_messages':
      return await recentMessages(board, user, request, now)
    case 'stats':
      return { kind, ...statsOf(await resolveMember(board.stats)) }
  }
}

async function recentMessages(board: Board, user: BoardUser, { sub: subName, limit }: ListRequest, now: number) {
  const subs = listOf(await resolveMember(board.msg_groups)).flatMap((group) =>
    canEnter(group['access'], user) && !isPlaceholder(textOf(group['name']))
      ? listOf(group['subs']).map((sub) => ({ ...createItem(sub, user), group: textOf(group['name']) }))
      : [],
  )
  const openSubs = subs.filter(({ isOpen }) => isOpen)
  if (!subName?.trim())
    throw invalid('recent_messages needs "sub".', `There are: ${namesOf(openSubs).slice(0, 1_000)}.`)
  // Closed subs are matched by full name only, or their names could be guessed letter by letter.
  const sub = findByNamePart(openSubs, subName) ?? findByName(subs, subName) ?? throwUnknown(openSubs, subName, 'sub')
  if (!sub.isOpen)
    throw denied(`${sub.name} is not publicly readable.`, 'Say so; its messages cannot be read any other way.')
  const { list_messages } = board
  const storedMessages =
    typeof list_messages === 'function'
      ? await (list_messages as (code: string, limit: number) => unknown)(sub.code, limit)
      : sub.fields['messages']
  const messages = listOf(storedMessages)
    .filter(({ vote, type }) => vote !== true && type !== 'vote' && type !== 'poll_vote')
    .map((fields) => ({ fields, at: parseTime(fields['when_written']), number: numberOf(fields['number']) }))
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

/** Milliseconds, from seconds since the epoch or a date as text; 0 if missing. */
function parseTime(value: unknown): number {
  const ms = typeof value === 'number' ? value * 1_000 : Date.parse(textOf(value).replace(/ UTC$/, 'Z'))
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? ms : 0
}

function statsOf(value: unknown): Json {
  const { today, lifetime } = asRecord(value)
  const countsIn = (counts: unknown): Json =>
    Object.fromEntries(
      Object.entries(asRecord(counts)).flatMap(([key, count]) =>
        typeof count === 'number' ? [[key, /^bytes_|_bytes$/.test(key) ? formatBytes(count) : count]] : [],
      ),
    )
  return { today: countsIn(today), lifetime: countsIn(lifetime) }
}

const UNITS = [
  ['TiB', 4, 2],
  ['GiB', 3, 2],
  ['MiB', 2, 1],
  ['KiB', 1, 0],
] as const

export function formatBytes(count: number): string {
  for (const [unit, power, decimals] of UNITS)
    if (count >= 1024 ** power) return `${(count / 1024 ** power).toFixed(decimals)} ${unit}`
  return `${count} B`
}

/** The current value of a member, which may be a function. */
const resolveMember = async (member: unknown): Promise<unknown> =>
  typeof member === 'function' ? await (member as () => unknown)() : member
