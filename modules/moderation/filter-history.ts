import { type Block, blockOf } from '../_blocks.ts'
import { asRecord } from '../_is-record.ts'
import { hoursLeft } from './blocks.ts'

/** A message of a conversation, in any shape. */
export type Entry = Readonly<Record<string, unknown>>

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

const authorOf = (entry: Entry) => ({ id: textOf(entry['user_id']), name: textOf(entry['user_name']) })

/**
 * Removes the messages of blocked users; one notice replaces consecutive messages. Messages of others stay, without
 * quotes of blocked users. Messages of muted users stay.
 */
export function filterHistory(history: readonly Entry[], blocks: readonly Block[], now: number): readonly Entry[] {
  const entries = history.map(removeForgedMark)
  const hidingBlocks = blocks.filter(({ block_type }) => block_type === 'block')
  if (hidingBlocks.length === 0) return entries
  const hiddenIds = new Set<unknown>()
  const result: Entry[] = []
  let previousBlock: Block | undefined
  for (const entry of entries) {
    const block = entry['role'] === 'system' ? undefined : blockOf(hidingBlocks, authorOf(entry))
    if (block) {
      if (entry['message_id'] !== undefined) hiddenIds.add(entry['message_id'])
      if (block !== previousBlock) result.push(createNotice(block, now))
    } else result.push(removeQuote(entry, hidingBlocks, hiddenIds))
    previousBlock = block
  }
  return result
}

/** Marked as Pegboard's own, because anybody can write these words. */
const createNotice = (block: Block, now: number): Entry => ({
  role: 'system',
  content: `[Messages of ${safeNameOf(block)} are hidden: you blocked this user, for ${hoursLeft(block, now)} more hour(s). unblock_user lifts the block.]`,
  _meta: { [`${OWN_PREFIX}notice`]: true },
})

const OWN_PREFIX = 'pegboard/'
const isOwnKey = (key: string): boolean => key.trim().toLowerCase().startsWith(OWN_PREFIX)

/** Users choose their names, so a name must neither end the notice nor start a line. */
const safeNameOf = ({ user_name }: Block): string =>
  user_name.replaceAll(/\s+/g, ' ').replaceAll('[', '(').replaceAll(']', ')').slice(0, 80)

function removeForgedMark(entry: Entry): Entry {
  const meta = asRecord(entry['_meta'])
  if (![entry, meta].some((fields) => Object.keys(fields).some(isOwnKey))) return entry
  const unmarked = withoutOwnKeys(entry)
  return entry['_meta'] === undefined ? unmarked : { ...unmarked, _meta: withoutOwnKeys(meta) }
}

const withoutOwnKeys = (fields: Entry): Entry =>
  Object.fromEntries(Object.entries(fields).filter(([key]) => !isOwnKey(key)))

function removeQuote(entry: Entry, hidingBlocks: readonly Block[], hiddenIds: ReadonlySet<unknown>): Entry {
  const { reply_to, reply_to_id, ...message } = entry
  if (reply_to !== undefined && blockOf(hidingBlocks, authorOf(asRecord(reply_to)))) return message
  if (!hiddenIds.has(reply_to_id)) return entry
  return { ...message, ...(reply_to === undefined ? {} : { reply_to }) }
}
