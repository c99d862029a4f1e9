import type { Origin, Services } from 'pegboard'
import { sameName } from '../_names.ts'

export interface Person {
  readonly id: string
  readonly name: string
  readonly bot: boolean
  readonly bridged: boolean
}

const MAX_MESSAGES = 500

/** Everyone whom a name can mean: people configured by the operator, recent authors, and members of the channel. */
export async function listPeople(
  { origin, services }: { readonly origin: Origin; readonly services: Services },
  users: readonly Person[],
): Promise<readonly Person[]> {
  const { channelId, channelMembers = [], seenMembers = [] } = origin
  const messages = (await services.messages?.recent(channelId, MAX_MESSAGES)) ?? []
  const entries = channelId === '' ? [] : ((await services.conversations?.get(channelId)) ?? [])
  const peopleById = new Map<string, Person>()
  const foldedNames = new Set<string>()
  const add = (person: Person): void => {
    if (person.id === '' || peopleById.has(person.id)) return
    peopleById.set(person.id, person)
    foldedNames.add(sameName(person.name))
  }
  const addAuthor = (id: string, name: string, bot = false): void =>
    add({ id: id || sameName(name), name: name || id, bot, bridged: false })
  for (const user of users) add(user)
  for (const { user_id, user_name } of messages) addAuthor(user_id, user_name)
  for (const { user_id, user_name, role } of entries)
    if (role === 'user' || role === 'assistant') addAuthor(user_id, user_name, role === 'assistant')
  // Members have a name only. A person with the same name and an id is not added again.
  for (const name of [...channelMembers, ...seenMembers]) if (!foldedNames.has(sameName(name))) addAuthor('', name)
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
