import type { Origin, Services } from 'pegboard'
import { sameName } from '../_names.ts'

export type Source = 'channel' | 'seen' | 'history' | 'local-user'

export interface Known {
  /** In their own spelling. */
  readonly name: string
  readonly source: Source
}

const MESSAGES = 500
const MAX_NEAR = 3

/** Everyone who can receive a message, nearest source first. */
export async function roster(
  { origin, services }: { readonly origin: Origin; readonly services: Services },
  users: readonly string[],
): Promise<readonly Known[]> {
  const recent = (await services.messages?.recent(origin.channelId, MESSAGES)) ?? []
  const sources: readonly (readonly [Source, readonly string[]])[] = [
    ['channel', origin.channelMembers ?? []],
    ['seen', origin.seenMembers ?? []],
    ['history', recent.map(({ user_name }) => user_name)],
    ['local-user', users],
  ]
  const known = new Map<string, Known>()
  for (const [source, names] of sources)
    for (const name of names) {
      const key = sameName(name)
      if (key !== '' && !known.has(key)) known.set(key, { name, source })
    }
  return [...known.values()]
}

export const find = (all: readonly Known[], wanted: string): Known | undefined =>
  all.find(({ name }) => sameName(name) === sameName(wanted))

/** Names that contain the text, or are contained in it. */
export function near(all: readonly Known[], wanted: string): readonly string[] {
  const text = sameName(wanted)
  return all
    .map(({ name }) => name)
    .filter((name) => sameName(name).includes(text) || text.includes(sameName(name)))
    .slice(0, MAX_NEAR)
}
