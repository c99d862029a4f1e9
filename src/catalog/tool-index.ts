import { groupBy } from '../core/group-by.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, findFreeName } from '../core/tool-names.ts'
import type { NameClash } from './name-clashes.ts'
import { findAbsentHolder, freeUnwantedNames, type IsReserved } from './name-holders.ts'
import { type OwnerNames, otherOwnerIn } from './owner-names.ts'

/** All tools by id and by wire name. */
export interface ToolIndex {
  /** In the given order. A tool that did not get the name it wants is a copy with another name. */
  readonly tools: readonly Tool[]
  readonly byId: ReadonlyMap<string, Tool>
  readonly byName: ReadonlyMap<string, Tool>
  /** Names that several tools want, or that are reserved for built-in tools or for another owner. */
  readonly clashes: readonly NameClash[]
}

/**
 * Gives each tool a wire name of its own. Names that differ only in case count as the same, because some clients treat
 * them so.
 * @param reserved names in lower case that no tool may have
 * @param names of all owners: a tool's name must not begin with that of another owner
 * @param holders ids by the wire names they had before, in lower case. Updated here: a tool keeps its name, whatever
 * appears later
 * @param isReserved true for the id of a tool that keeps its name although it is not in `allTools`
 */
export function indexTools(
  allTools: readonly Tool[],
  reserved: ReadonlySet<string>,
  names: OwnerNames,
  holders: Map<string, string>,
  isReserved: IsReserved,
): ToolIndex {
  const byId = new Map(allTools.map((tool) => [tool.id, tool]))
  const toolsByName = groupBy(allTools, ({ name }) => name.toLowerCase())
  const clashes: NameClash[] = []
  const newNames = new Map<Tool, string>()
  const isTaken = (name: string): boolean => toolsByName.has(name.toLowerCase())
  const rename = (tool: Tool): void => void newNames.set(tool, findFreeName(tool.name, tool.id, isTaken))
  for (const [folded, group] of toolsByName) {
    const ids = group.map(({ id }) => id).sort()
    const holder = holders.get(folded)
    const absentHolder = findAbsentHolder(holder, ids, isReserved)
    if (absentHolder) {
      for (const tool of group) rename(tool)
      const { name } = group[0] as Tool
      clashes.push({ name, ids: [...ids, absentHolder].sort(), kept: absentHolder, isAway: true })
      continue
    }
    const allowed = group.filter((tool) => !reserved.has(folded) && otherOwnerIn(tool, names) === undefined)
    const keepers = listKeepers(byPriority(allowed, holder))
    for (const tool of group) if (!keepers.includes(tool)) rename(tool)
    const [winner] = keepers
    if (winner) holders.set(folded, winner.id)
    else holders.delete(folded)
    if (winner && group.length === 1) continue
    const { name } = (allowed.length === group.length ? winner : byId.get(ids[0] as string)) as Tool
    const isCase = keepers.length === group.length
    const owner = group.length === 1 && !reserved.has(folded) ? otherOwnerIn(group[0] as Tool, names) : undefined
    clashes.push({ name, ids, ...omitUndefined({ kept: winner?.id, owner }), ...(isCase ? { isCase } : {}) })
  }
  freeUnwantedNames(holders, toolsByName, isReserved)

  const byName = new Map<string, Tool>()
  const tools = allTools.map((tool) => {
    const name = newNames.get(tool)
    const named = name === undefined ? tool : renameTool(tool, name)
    if (named !== tool) byId.set(named.id, named)
    byName.set(named.name, named)
    return named
  })
  return { tools, byId, byName, clashes }
}

/** Sorts by who gets the name: the tool that has it already, then tools of servers, then ids without a dot in the action. */
function byPriority(group: readonly Tool[], holder: string | undefined): readonly Tool[] {
  if (group.length < 2) return group
  const rank = (tool: Tool): number =>
    tool.id === holder ? 0 : (tool.origin === 'upstream' ? 1 : 3) + (actionOf(tool).includes('.') ? 1 : 0)
  return [...group].sort((a, b) => rank(a) - rank(b))
}

/** The candidates who keep the name: the first one, and others of its server with another case, because the author meant both. */
function listKeepers(candidates: readonly Tool[]): readonly Tool[] {
  const [winner] = candidates
  if (!winner || candidates.length === 1) return candidates
  const byName = new Map([[winner.name, winner]])
  for (const tool of candidates)
    if (tool.module === winner.module && !byName.has(tool.name)) byName.set(tool.name, tool)
  return [...byName.values()]
}

const renamedTools = new WeakMap<Tool, Tool>()

/** The tool under another name. Returns the same object for the same name, because others cache by identity. */
function renameTool(tool: Tool, name: string): Tool {
  const cached = renamedTools.get(tool)
  if (cached?.name === name) return cached
  // A prototype and not a spread, because definitions may be getters that parse.
  const renamed: Tool = Object.create(tool, { name: { value: name, enumerable: true } })
  renamedTools.set(tool, renamed)
  return renamed
}
