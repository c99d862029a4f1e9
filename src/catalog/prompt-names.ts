import { getOrInsert } from '../core/get-or-insert.ts'
import { distinctName } from '../core/tool-names.ts'
import type { NameClash } from './name-clashes.ts'
import type { IsReserved } from './name-holders.ts'
import type { Owner, Prompt } from './owner.ts'

export interface PromptNames {
  /** Names for clients of those prompts that did not get the name that their server wants. */
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
  const promptsByName = new Map<string, Array<{ readonly prompt: Prompt; readonly id: string }>>()
  for (const { id, prompts } of owners)
    for (const prompt of prompts) getOrInsert(promptsByName, prompt.name, () => []).push({ prompt, id })
  const renamed = new Map<Prompt, string>()
  const clashes: NameClash[] = []
  for (const [name, group] of promptsByName) {
    const holder = holders.get(name)
    if (holder !== undefined && !group.some(({ id }) => id === holder) && isReserved(holder)) {
      for (const { prompt, id } of group) renamed.set(prompt, freeName(name, id, promptsByName))
      const ids = [holder, ...group.map(({ id }) => id)].map(describePrompt).sort()
      clashes.push({ name, ids, kept: describePrompt(holder), isAway: true, isPrompt: true })
      continue
    }
    const allowed = group.filter(({ id }) => claimedBy({ name, module: id }) === undefined)
    const winner = allowed.find(({ id }) => id === holder) ?? allowed[0]
    if (winner) holders.set(name, winner.id)
    else holders.delete(name)
    for (const one of group) if (one !== winner) renamed.set(one.prompt, freeName(name, one.id, promptsByName))
    if (winner && group.length === 1) continue
    const owner = group.length === 1 ? claimedBy({ name, module: group[0]?.id ?? '' }) : undefined
    clashes.push({
      name,
      isPrompt: true,
      ids: group.map(({ id }) => describePrompt(id)).sort(),
      ...(winner && { kept: describePrompt(winner.id) }),
      ...(owner === undefined ? {} : { owner }),
    })
  }
  for (const [name, holder] of holders) if (!promptsByName.has(name) && !isReserved(holder)) holders.delete(name)
  return { renamed, clashes }
}

const describePrompt = (id: string): string => `a prompt of ${id}`

/** Depends only on the prompt and its owner, so that it stays the same whatever else is configured. */
function freeName(name: string, id: string, takenNames: ReadonlyMap<string, unknown>): string {
  for (let seed = `${id} ${name}`; ; seed += '#') {
    const free = distinctName(name, seed)
    if (!takenNames.has(free)) return free
  }
}
