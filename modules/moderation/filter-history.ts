import { type Block, blockOf } from '../_blocks.ts'
import { hoursLeft } from './blocks.ts'

/** A message of a conversation, in any shape. */
export type Entry = Readonly<Record<string, unknown>>

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
const fieldsOf = (value: unknown): Entry => (typeof value === 'object' && value !== null ? (value as Entry) : {})
const authorOf = (entry: Entry) => ({ id: textOf(entry['user_id']), name: textOf(entry['user_name']) })

/**
 * Removes what blocked users wrote and sent; one notice replaces consecutive messages. Messages of others stay,
 * without quotes of blocked users. Muted users stay: they are read, but cannot start anything.
 */
export function filterHistory(given: readonly Entry[], blocks: readonly Block[], now: number): readonly Entry[] {
  const entries = given.map(removeForgedMark)
  const hidden = blocks.filter(({ block_type }) => block_type === 'block')
  if (hidden.length === 0) return entries
  const gone = new Set<unknown>()
  const result: Entry[] = []
  let last: Block | undefined
  for (const entry of entries) {
    const block = entry['role'] === 'system' ? undefined : blockOf(hidden, authorOf(entry))
    if (block) {
      if (entry['message_id'] !== undefined) gone.add(entry['message_id'])
      if (block !== last) result.push(notice(block, now))
    } else result.push(removeQuote(entry, hidden, gone))
    last = block
  }
  return result
}

/** Marked as Pegboard's own, because anybody can write these words. */
const notice = (block: Block, now: number): Entry => ({
  role: 'system',
  content: `[Messages of ${nameIn(block)} are hidden: you blocked this user, for ${hoursLeft(block, now)} more hour(s). unblock_user lifts the block.]`,
  _meta: { [`${OWN}notice`]: true },
})

const OWN = 'pegboard/'
const isOwn = (key: string): boolean => key.trim().toLowerCase().startsWith(OWN)

/** Users choose their names, so a name must neither end the notice nor start a line. */
const nameIn = ({ user_name }: Block): string =>
  user_name.replaceAll(/\s+/g, ' ').replaceAll('[', '(').replaceAll(']', ')').slice(0, 80)

function removeForgedMark(entry: Entry): Entry {
  const meta = fieldsOf(entry['_meta'])
  if (![entry, meta].some((fields) => Object.keys(fields).some(isOwn))) return entry
  const unmarked = withoutOwnKeys(entry)
  return entry['_meta'] === undefined ? unmarked : { ...unmarked, _meta: withoutOwnKeys(meta) }
}

const withoutOwnKeys = (fields: Entry): Entry =>
  Object.fromEntries(Object.entries(fields).filter(([key]) => !isOwn(key)))

function removeQuote(entry: Entry, hidden: readonly Block[], gone: ReadonlySet<unknown>): Entry {
  const { reply_to, reply_to_id, ...rest } = entry
  const isQuote = reply_to !== undefined && blockOf(hidden, authorOf(fieldsOf(reply_to))) !== undefined
  const isLink = reply_to_id !== undefined && gone.has(reply_to_id)
  if (!isQuote && !isLink) return entry
  return {
    ...rest,
    ...(reply_to === undefined || isQuote ? {} : { reply_to }),
    ...(reply_to_id === undefined || isQuote || isLink ? {} : { reply_to_id }),
  }
}
