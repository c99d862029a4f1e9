import type { Origin, Services } from 'pegboard'
import { sameName } from '../_names.ts'

export interface Person {
  readonly id: string
  readonly name: string
  readonly bot: boolean
  readonly bridged: boolean
}

const MESSAGES = 500

/** Everyone who can be meant: people configured by the operator, recent authors, and members of the channel. */
export async function listPeople(
  { origin, services }: { readonly origin: Origin; readonly services: Services },
  users: readonly Person[],
): Promise<readonly Person[]> {
  const { channelId, channelMembers = [], seenMembers = [] } = origin
  const messages = (await services.messages?.recent(channelId, MESSAGES)) ?? []
  const entries = channelId === '' ? [] : ((await services.conversations?.get(channelId)) ?? [])
  const person = (id: string, name: string, bot = false): Person => ({
    id: id || sameName(name),
    name: name || id,
    bot,
    bridged: false,
  })
  const peopleById = new Map<string, Person>()
  const named = new Set<string>()
  const add = (one: Person): void => {
    if (one.id === '' || peopleById.has(one.id)) return
    peopleById.set(one.id, one)
    named.add(sameName(one.name))
  }
  for (const user of users) add(user)
  for (const { user_id, user_name } of messages) add(person(user_id, user_name))
  for (const { user_id, user_name, role } of entries)
    if (role === 'user' || role === 'assistant') add(person(user_id, user_name, role === 'assistant'))
  // For these only the name is known, so they do not duplicate people known in more detail.
  for (const name of [...channelMembers, ...seenMembers]) if (!named.has(sameName(name))) add(person('', name))
  return [...peopleById.values()]
}

/** Finds people by id, name, or part of the name; several if ambiguous. */
export function matchPeople(all: readonly Person[], query: string): readonly Person[] {
  const text = sameName(query.replace(/^<?@!?/, '').replace(/>$/, ''))
  const byId = all.filter(({ id }) => id === text || id === query)
  if (byId.length > 0) return byId
  // An empty text is part of every name.
  if (text === '') return []
  const byName = all.filter(({ name }) => sameName(name) === text)
  return byName.length > 0 ? byName : all.filter(({ name }) => sameName(name).includes(text))
}
