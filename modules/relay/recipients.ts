import type { Origin, Services } from 'pegboard'
import { sameName } from '../_names.ts'

export type Source = 'channel' | 'seen' | 'history' | 'local-user'

export interface Recipient {
  /** In their own spelling. */
  readonly name: string
  readonly source: Source
}

const MAX_MESSAGES = 500
const MAX_SUGGESTIONS = 3

/** Everyone who can receive a message, nearest source first. */
export async function listRecipients(
  { origin, services }: { readonly origin: Origin; readonly services: Services },
  users: readonly string[],
): Promise<readonly Recipient[]> {
  const recent = (await services.messages?.recent(origin.channelId, MAX_MESSAGES)) ?? []
  const sources: readonly (readonly [Source, readonly string[]])[] = [
    ['channel', origin.channelMembers ?? []],
    ['seen', origin.seenMembers ?? []],
    ['history', recent.map(({ user_name }) => user_name)],
    ['local-user', users],
  ]
  const recipientsByName = new Map<string, Recipient>()
  for (const [source, names] of sources)
    for (const name of names) {
      const key = sameName(name)
      if (key !== '' && !recipientsByName.has(key)) recipientsByName.set(key, { name, source })
    }
  return [...recipientsByName.values()]
}

export const findRecipient = (recipients: readonly Recipient[], requestedName: string): Recipient | undefined =>
  recipients.find(({ name }) => sameName(name) === sameName(requestedName))

/** Names that contain the text, or are contained in it. */
export function similarNames(recipients: readonly Recipient[], requestedName: string): readonly string[] {
  const text = sameName(requestedName)
  return recipients
    .map(({ name }) => name)
    .filter((name) => sameName(name).includes(text) || text.includes(sameName(name)))
    .slice(0, MAX_SUGGESTIONS)
}
