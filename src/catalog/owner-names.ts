import type { Tool } from '../core/tool.ts'
import { removeOwnerPrefix } from '../core/tool-names.ts'

/** Names in lower case that mean a module or server, each with the ids of the owners that it can mean. */
export type OwnerNames = ReadonlyMap<string, ReadonlySet<string>>

/** The configured names, and each of `ids` with and without `mcp_` or `api_`. */
export function ownerNames(ids: Iterable<string>, configured: OwnerNames): OwnerNames {
  const names = new Map([...configured].map(([name, owners]) => [name, new Set(owners)]))
  const add = (name: string, id: string): void => void names.set(name, (names.get(name) ?? new Set()).add(id))
  for (const id of ids) {
    add(id, id)
    const short = removeOwnerPrefix(id)
    if (short !== id) add(short, id)
  }
  return names
}

/**
 * Another owner whose name the wire name of a tool begins with; undefined if there is none. With servers `a` and
 * `a__b`, the name `a__b__c` could mean a tool of either.
 */
export function otherOwnerIn({ name, module }: Pick<Tool, 'name' | 'module'>, names: OwnerNames): string | undefined {
  const folded = name.toLowerCase()
  for (let at = folded.indexOf('__', 1); at > 0; at = folded.indexOf('__', at + 1)) {
    const ids = names.get(folded.slice(0, at))
    if (ids && !ids.has(module)) return [...ids][0]
  }
  return undefined
}
