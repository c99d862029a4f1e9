import { randomUUID } from 'node:crypto'
import type { Caller, Origin } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import type { ConversationEntry, Conversations } from '../core/service-types.ts'
import { type Documents, keyOf } from '../state/document-store.ts'
import { timeOf } from './message-store.ts'

/** Entries kept per channel. */
const WINDOW = 100
const MAX_CONTENT = 32_000
const ROLES = ['user', 'assistant', 'system', 'tool']

export type ConversationDocument = readonly ConversationEntry[]

export const isConversation = (value: unknown): boolean =>
  Array.isArray(value) && value.every((one) => typeof (one as ConversationEntry)?.message_id === 'string')

export interface ConversationsOptions {
  /** The documents of a profile; one per channel. */
  readonly documents: (profile: string) => Documents<ConversationDocument>
  readonly clock: Clock
}

/** Stores the conversation of each channel, in order. */
export function createConversations({ documents, clock }: ConversationsOptions) {
  return (caller: Pick<Caller, 'profile'>, origin: Pick<Origin, 'platform'>): Conversations => {
    const store = documents(caller.profile)
    const keyFor = (channel: string, platform = origin.platform): string => keyOf(platform, channelOf(channel))

    /** Changes one entry. Returns it, or `null` if there is none. */
    const edit = (key: string, id: string, change: (entry: ConversationEntry) => ConversationEntry) =>
      store.update(key, (before = []) => {
        const at = before.findIndex(({ message_id, deleted }) => message_id === id && !deleted)
        const old = before[at]
        if (!old) return { result: null }
        const now = change(old)
        return { value: before.with(at, now), result: now }
      })

    return {
      append(channel, given, platform) {
        if (!ROLES.includes(given.role))
          throw new PegboardError('E_VALIDATION', `The role of an entry is one of ${ROLES.join(', ')}.`)
        const entry: ConversationEntry = {
          message_id: given.message_id ?? randomUUID(),
          role: given.role,
          content: contentOf(given.content),
          user_id: given.user_id ?? '',
          user_name: given.user_name ?? '',
          timestamp: timeOf(given.timestamp, clock.now()),
          ...(given.files === undefined ? {} : { files: given.files }),
        }
        return store.update(keyFor(channel, platform), (before = []) => ({
          value: [...before, entry].slice(-WINDOW),
          result: entry,
        }))
      },
      async get(channel, n = WINDOW, platform) {
        const entries = ((await store.read(keyFor(channel, platform))) ?? []).filter(({ deleted }) => !deleted)
        return structuredClone(entries.slice(-Math.max(1, n)))
      },
      update: (channel, id, { content, files }, platform) =>
        edit(keyFor(channel, platform), id, (entry) => ({
          ...entry,
          ...(content === undefined ? {} : { content: contentOf(content) }),
          ...(files === undefined ? {} : { files }),
        })),
      delete: async (channel, id, platform) =>
        (await edit(keyFor(channel, platform), id, (entry) => ({ ...entry, deleted: true }))) !== null,
      clear: (channel, platform) =>
        store.update(keyFor(channel, platform), (before = []) => ({
          value: [],
          result: before.filter(({ deleted }) => !deleted).length,
        })),
    }
  }
}

function channelOf(channel: unknown): string {
  if (typeof channel === 'string' && channel !== '') return channel
  throw new PegboardError('E_VALIDATION', 'A conversation needs the id of its channel.')
}

function contentOf(content: unknown): string {
  if (typeof content !== 'string') throw new PegboardError('E_VALIDATION', 'The content of an entry must be a string.')
  return content.slice(0, MAX_CONTENT)
}
