import type { Tool } from '../core/tool.ts'
import type { Atlas } from './atlas.ts'
import { bareNameOf } from './search-document.ts'

/** Ids of tools of the same server. */
export interface UsedWith {
  readonly before: readonly string[]
  readonly after: readonly string[]
}

const MOST = { before: 1, after: 2 } as const

/**
 * The tools that are often called before and after this one: by this principal, then by others, from the atlas. Before it
 * only tools that change something count: `git_add` before `git_commit`. That a model reads first needs no advice.
 * @param others tools of the same owner that the caller sees and that the answer does not list
 * @param own ids of tools that this principal called before and after it
 * @returns undefined if there are none
 */
export function usedWith(
  tool: Tool,
  others: readonly Tool[],
  atlas: Atlas | undefined,
  own: UsedWith = { before: [], after: [] },
): UsedWith | undefined {
  const known = atlas?.neighboursOf(tool) ?? { before: [], after: [] }
  const byName = new Map(others.map((other) => [bareNameOf(other).toLowerCase(), other]))
  const byId = new Map(others.map((other) => [other.id, other]))
  const find = (when: keyof UsedWith): Tool[] => [
    ...new Set([
      ...own[when].flatMap((id) => byId.get(id) ?? []),
      ...known[when].flatMap((name) => byName.get(name.toLowerCase()) ?? []),
    ]),
  ]
  const before = find('before').filter(({ effect }) => effect === 'write')
  const found = {
    before: before.slice(0, MOST.before).map(({ id }) => id),
    after: find('after')
      .slice(0, MOST.after)
      .map(({ id }) => id),
  }
  return found.before.length + found.after.length > 0 ? found : undefined
}
