import { randomUUID } from 'node:crypto'
import type { Caller, Origin } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import type { CachedMessage, Messages } from '../core/service-types.ts'
import { type Documents, keyOf } from '../state/document-store.ts'

const DAY_MS = 24 * 60 * 60_000
const KEPT_MS = 90 * DAY_MS
const PER_CHANNEL = 500
const MAX_TEXT = 16_000
/** Number of the newest messages that are compared with a query. */
const SEARCHED = 2_000
/** Number of characters compared of each message. */
const COMPARED_CHARS = 500
/** A text without a common word matches from this similarity. */
const LIKE = 0.35

export const isMessages = (value: unknown): boolean =>
  Array.isArray(value) && value.every((one) => typeof (one as CachedMessage)?.text === 'string')

/** Similarity of the query and each text, -1 to 1; undefined without an embedding model. */
export type CompareTexts = (query: string, texts: readonly string[]) => readonly number[] | undefined

export interface MessagesOptions {
  /** The documents of a profile; one per channel. */
  readonly documents: (profile: string) => Documents<readonly CachedMessage[]>
  readonly clock: Clock
  readonly likeness?: CompareTexts
}

/** Stores the messages of channels, by profile. */
export function createMessages({ documents, clock, likeness }: MessagesOptions) {
  const fresh = (messages: readonly CachedMessage[] | undefined): readonly CachedMessage[] => {
    const from = clock.now() - KEPT_MS
    return (messages ?? []).filter(({ timestamp }) => timestamp > from)
  }

  return (caller: Pick<Caller, 'profile'>, origin: Origin): Messages => {
    const store = documents(caller.profile)
    return {
      async record(given) {
        const { platform, channelId, userId, userName } = origin
        const message: CachedMessage = {
          user_id: given.user_id ?? userId,
          user_name: given.user_name ?? userName,
          platform: given.platform ?? platform,
          channel_id: given.channel_id ?? channelId,
          text: textOf(given.text),
          timestamp: timeOf(given.timestamp, clock.now()),
          message_id: given.message_id ?? randomUUID(),
          reply_to_id: given.reply_to_id ?? '',
        }
        return await store.update(keyOf(message.platform, message.channel_id), (before) => {
          const others = fresh(before).filter(({ message_id }) => message_id !== message.message_id)
          const value = [...others, message].sort((a, b) => a.timestamp - b.timestamp).slice(-PER_CHANNEL)
          return { value, result: message }
        })
      },
      async recent(channel, n = 20, platform = origin.platform) {
        return fresh(await store.read(keyOf(platform, channel)))
          .slice(-Math.max(1, n))
          .map((message) => ({ ...message }))
          .reverse()
      },
      async search(query, k = 5, channel, platform) {
        const keys = channel === undefined ? await store.keys() : [keyOf(platform ?? origin.platform, channel)]
        const all: CachedMessage[] = []
        for (const key of keys) all.push(...fresh(await store.read(key)))
        const found = platform === undefined ? all : all.filter((message) => message.platform === platform)
        const newest = found.sort((a, b) => b.timestamp - a.timestamp).slice(0, SEARCHED)
        const like = likeness?.(
          query,
          newest.map(({ text }) => text.slice(0, COMPARED_CHARS)),
        )
        const words = wordsOf(query)
        const scored = newest.map((message, index) => {
          const shared = computeShare(words, message.text)
          const likely = like?.[index] ?? 0
          return { message, score: shared === 0 && likely < LIKE ? 0 : shared + Math.max(0, likely) }
        })
        return scored
          .filter(({ score }) => score > 0)
          .sort((a, b) => b.score - a.score)
          .slice(0, Math.max(1, k))
          .map(({ message }) => ({ ...message }))
      },
    }
  }
}

/** A time outside the calendar would make the whole channel unreadable. */
export const timeOf = (given: number | undefined, now: number): number =>
  given !== undefined && Math.abs(given) <= 8.64e15 ? given : now

function textOf(text: unknown): string {
  if (typeof text !== 'string') throw new PegboardError('E_VALIDATION', 'A message needs a text.')
  return text.slice(0, MAX_TEXT)
}

/** The words of a text in lower case, each once. */
export const wordsOf = (text: string): readonly string[] => [
  ...new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []),
]

/** The share of the query's words that a text contains, 0 to 1. */
function computeShare(words: readonly string[], text: string): number {
  if (words.length === 0) return 0
  const own = new Set(wordsOf(text))
  return words.filter((word) => own.has(word)).length / words.length
}
