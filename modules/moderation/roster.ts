import type { Origin, Services } from 'pegboard'
import { sameName } from '../_names.ts'

export interface Person {
  readonly id: string
  readonly name: string
  readonly bot: boolean
  readonly bridged: boolean
}

const MESSAGES = 500

/** Everybody who can be meant: those the operator names, who wrote in the channel, and who is in it. */
export async function people(
  { origin, services }: { readonly origin: Origin; readonly services: Services },
  users: readonly Person[],
): Promise<readonly Person[]> {
  const { channelId, channelMembers = [], seenMembers = [] } = origin
  const said = (await services.messages?.recent(channelId, MESSAGES)) ?? []
  const entries = channelId === '' ? [] : ((await services.conversations?.get(channelId)) ?? [])
  const person = (id: string, name: string, bot = false): Person => ({
    id: id || sameName(name),
    name: name || id,
    bot,
    bridged: false,
  })
  const known = new Map<string, Person>()
  const named = new Set<string>()
  const add = (one: Person): void => {
    if (one.id === '' || known.has(one.id)) return
    known.set(one.id, one)
    named.add(sameName(one.name))
  }
  for (const user of users) add(user)
  for (const { user_id, user_name } of said) add(person(user_id, user_name))
  for (const { user_id, user_name, role } of entries)
    if (role === 'user' || role === 'assistant') add(person(user_id, user_name, role === 'assistant'))
  // Of these the name alone is known: it adds nobody who is known by more.
  for (const name of [...channelMembers, ...seenMembers]) if (!named.has(sameName(name))) add(person('', name))
  return [...known.values()]
}

/** Who is meant: by id, by name, by a part of the name. Several where that is not clear. */
export function meant(all: readonly Person[], wanted: string): readonly Person[] {
  const text = sameName(wanted.replace(/^<?@!?/, '').replace(/>$/, ''))
  const byId = all.filter(({ id }) => id === text || id === wanted)
  if (byId.length > 0) return byId
  // A part of every name is no name.
  if (text === '') return []
  const byName = all.filter(({ name }) => sameName(name) === text)
  return byName.length > 0 ? byName : all.filter(({ name }) => sameName(name).includes(text))
}
