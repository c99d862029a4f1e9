import type { Owner } from '../catalog/catalog.ts'
import { replacedBy } from '../catalog/replaced.ts'
import type { Tool } from '../core/tool.ts'
import type { Rules } from './rules.ts'
import type { ViewTool } from './view.ts'
import type { Hidden } from './visible.ts'

/** The tools of a view that is being made. What stands aside is taken out, and its reason noted. */
export interface Making {
  readonly tools: ViewTool[]
  readonly byId: Map<string, ViewTool>
  readonly hidden: Map<string, Hidden>
}

/**
 * Takes out what others stand in for, where this caller has those: what the operator says one tool replaces, and what
 * modules do that a server is there for. Of a server that the profile has of its own, tools with the name of another
 * tool are left out instead, for this profile.
 * @param owners those the caller sees
 * @param skipped told of each tool that is left out, and why
 */
export function standAside(
  making: Making,
  owners: Iterable<Owner>,
  { own }: Rules,
  skipped: (tool: string, why: string) => void,
): void {
  const { tools } = making
  if (tools.some(({ tool }) => tool.replaces !== undefined))
    for (const [id, by] of replacedBy(new Map(tools.map(({ tool }) => [ownId(tool), tool]))))
      takeOut(making, id, `replaced by ${by}`)
  const standIns = standInsOf(tools, owners)
  if (standIns.size > 0)
    for (const { tool } of [...tools]) {
      const by = tool.origin === 'module' && tool.provides !== undefined ? standIns.get(tool.provides) : undefined
      if (by !== undefined) takeOut(making, ownId(tool), `${by} stands in for it`)
    }
  if (own === undefined || own.size === 0) return
  const providing = new Set([...owners].flatMap(({ id, provides }) => (provides === undefined ? [] : [id])))
  const clashing = tools.filter(({ tool }) => own.has(tool.module) && !providing.has(tool.module))
  if (clashing.length === 0) return
  const names = namesOfModules(tools)
  for (const { tool } of clashing) {
    const other = names.get(actionOf(tool).toLowerCase())
    if (other === undefined) continue
    const why = `it is called like ${other}`
    takeOut(making, ownId(tool), why)
    skipped(tool.id, why)
  }
}

/** Whatever it is called for this caller. */
const ownId = (tool: Tool): string => (tool.itself ?? tool).id

function takeOut({ tools, byId, hidden }: Making, id: string, reason: string): void {
  const entry = byId.get(id)
  if (!entry) return
  byId.delete(id)
  tools.splice(tools.indexOf(entry), 1)
  hidden.set(id, { kind: 'unavailable', stage: 'replacement', reason })
}

/** The first visible tool of a server that is there for something, by what that is. */
function standInsOf(tools: readonly ViewTool[], owners: Iterable<Owner>): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const { id, provides } of owners) {
    if (provides === undefined || found.has(provides)) continue
    const first = tools.find(({ tool }) => tool.module === id)
    if (first) found.set(provides, first.tool.id)
  }
  return found
}

/** What the tools of modules are called, without their module. */
function namesOfModules(tools: readonly ViewTool[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  for (const { tool } of tools) {
    if (tool.origin !== 'module') continue
    for (const name of [actionOf(tool), ...tool.aliases]) names.set(name.toLowerCase(), tool.id)
  }
  return names
}

const actionOf = ({ id, module }: Tool): string => id.slice(module.length + 1)
