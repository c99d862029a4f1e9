import type { Owner } from '../catalog/owner.ts'
import { replacedBy } from '../catalog/replaced-tools.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf } from '../core/tool-names.ts'
import type { ViewTool } from './view.ts'
import type { ViewRules } from './view-rules.ts'
import type { HiddenReason } from './visibility.ts'

/** The tools of a view while it is built. */
export interface ViewDraft {
  readonly tools: ViewTool[]
  readonly byId: Map<string, ViewTool>
  readonly hidden: Map<string, HiddenReason>
}

/**
 * Hides tools that another visible tool replaces: by `replaces` in the configuration, or a module's tool by a server
 * that provides the same. Also hides tools of a profile's own server that have the name of another tool.
 * @param owners the owners that the caller sees
 * @param onSkipped called for each tool of a profile's own server that is hidden, with the reason
 */
export function applyReplacements(
  draft: ViewDraft,
  owners: Iterable<Owner>,
  { ownServers }: ViewRules,
  onSkipped: (tool: string, why: string) => void,
): void {
  const { tools } = draft
  if (tools.some(({ tool }) => tool.replaces !== undefined))
    for (const [id, by] of replacedBy(new Map(tools.map(({ tool }) => [catalogId(tool), tool]))))
      hideTool(draft, id, `replaced by ${by}`)
  const replacements = findReplacements(tools, owners)
  if (replacements.size > 0)
    for (const { tool } of [...tools]) {
      const by = tool.origin === 'module' && tool.provides !== undefined ? replacements.get(tool.provides) : undefined
      if (by !== undefined) hideTool(draft, catalogId(tool), `${by} replaces it`)
    }
  if (ownServers === undefined || ownServers.size === 0) return
  const providing = new Set([...owners].flatMap(({ id, provides }) => (provides === undefined ? [] : [id])))
  const ownServerTools = tools.filter(({ tool }) => ownServers.has(tool.module) && !providing.has(tool.module))
  if (ownServerTools.length === 0) return
  const names = namesOfModules(tools)
  for (const { tool } of ownServerTools) {
    const other = names.get(actionOf(tool).toLowerCase())
    if (other === undefined) continue
    const why = `it has the same name as ${other}`
    hideTool(draft, catalogId(tool), why)
    onSkipped(tool.id, why)
  }
}

/** Id in the catalog, even if this caller knows the tool by an alias. */
const catalogId = (tool: Tool): string => (tool.itself ?? tool).id

function hideTool({ tools, byId, hidden }: ViewDraft, id: string, reason: string): void {
  const entry = byId.get(id)
  if (!entry) return
  byId.delete(id)
  tools.splice(tools.indexOf(entry), 1)
  hidden.set(id, { kind: 'unavailable', stage: 'replacement', reason })
}

/** The first visible tool of each server that provides something, by what it provides. */
function findReplacements(tools: readonly ViewTool[], owners: Iterable<Owner>): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const { id, provides } of owners) {
    if (provides === undefined || found.has(provides)) continue
    const first = tools.find(({ tool }) => tool.module === id)
    if (first) found.set(provides, first.tool.id)
  }
  return found
}

/** Ids of modules' tools, by their names without the module, in lower case. */
function namesOfModules(tools: readonly ViewTool[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  for (const { tool } of tools) {
    if (tool.origin !== 'module') continue
    for (const name of [actionOf(tool), ...tool.aliases]) names.set(name.toLowerCase(), tool.id)
  }
  return names
}
