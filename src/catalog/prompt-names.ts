import { getOrInsert } from '../core/get-or-insert.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { findFreeName } from '../core/tool-names.ts'
import type { NameClash } from './name-clashes.ts'
import { findAbsentHolder, freeUnwantedNames, type IsReserved } from './name-holders.ts'
import type { Owner, Prompt } from './owner.ts'

interface OwnedPrompt {
  readonly prompt: Prompt
  /** Id of the owner. */
  readonly id: string
}

export interface PromptNames {
  /** Names for clients, of the prompts that could not keep the name that their server lists. */
  readonly renamed: ReadonlyMap<Prompt, string>
  readonly clashes: readonly NameClash[]
}

/**
 * Gives each prompt a name of its own. The first owner of a name keeps it, and no name may begin with that of another
 * owner, so that no server receives requests for a prompt of another.
 * @param claimedBy returns another owner whose name this one begins with
 * @param holders ids of owners by the prompt names they had before. Updated here
 * @param isReserved true for the id of an owner that keeps names although it does not list them
 */
export function promptNames(
  owners: Iterable<Owner>,
  claimedBy: (prompt: { readonly name: string; readonly module: string }) => string | undefined,
  holders: Map<string, string>,
  isReserved: IsReserved,
): PromptNames {
  const promptsByName = new Map<string, OwnedPrompt[]>()
  for (const { id, prompts } of owners)
    for (const prompt of prompts) getOrInsert(promptsByName, prompt.name, () => []).push({ prompt, id })
  const renamed = new Map<Prompt, string>()
  const clashes: NameClash[] = []
  for (const [name, group] of promptsByName) {
    const ids = group.map(({ id }) => id)
    const holder = holders.get(name)
    const absentHolder = findAbsentHolder(holder, ids, isReserved)
    const allowed = absentHolder ? [] : group.filter(({ id }) => claimedBy({ name, module: id }) === undefined)
    const winner = allowed.find(({ id }) => id === holder) ?? allowed[0]
    const isTaken = (free: string): boolean => promptsByName.has(free)
    for (const one of group)
      if (one !== winner) renamed.set(one.prompt, findFreeName(name, `${one.id} ${name}`, isTaken))
    if (absentHolder) {
      const kept = describePrompt(absentHolder)
      clashes.push({ name, ids: describePrompts([absentHolder, ...ids]), kept, isAway: true, isPrompt: true })
      continue
    }
    if (winner) holders.set(name, winner.id)
    else holders.delete(name)
    if (winner && group.length === 1) continue
    const kept = winner && describePrompt(winner.id)
    const owner = group.length === 1 ? claimedBy({ name, module: ids[0] as string }) : undefined
    clashes.push({ name, isPrompt: true, ids: describePrompts(ids), ...omitUndefined({ kept, owner }) })
  }
  freeUnwantedNames(holders, promptsByName, isReserved)
  return { renamed, clashes }
}

const describePrompt = (id: string): string => `a prompt of ${id}`
const describePrompts = (ids: readonly string[]): string[] => ids.map(describePrompt).sort()
