import type { Catalog } from '../catalog/catalog.ts'
import { exposedName } from '../catalog/naming.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, removeOwnerPrefix } from '../core/tool-names.ts'
import type { OtherTools } from '../trust/assess-tools.ts'
import { mergeOtherTools, type OtherTool, otherToolsOf } from '../trust/other-tools.ts'

/** The tools of all other owners, with the ways texts may mention them. Each owner's tools are computed once. */
export const otherToolsTo = (catalog: Catalog, module: string): OtherTools =>
  mergeOtherTools(() =>
    [...catalog.snapshot().owners.values()].flatMap((owner) => {
      if (owner.id === module) return []
      const { tools, quarantined } = owner
      // Quarantined tools count, because they may be approved later.
      const waiting =
        quarantined.length === 0 ? [] : [otherToolsOf(() => quarantined.map(({ tool }) => otherToolOf(tool)))]
      if (tools.length === 0) return waiting
      return [getOrInsert(cache, tools, () => otherToolsOf(() => tools.map(otherToolOf))), ...waiting]
    }),
  )

const cache = new WeakMap<readonly Tool[], OtherTools>()

const otherToolOf = (tool: Tool): OtherTool => {
  const { module, name: exposed, ownNames } = tool
  // Computed on access, because it may require parsing a description.
  return Object.create(otherToolNamed(module, ownNames?.[0] ?? actionOf(tool), exposed), {
    description: { get: () => tool.description },
  })
}

/** The tools of one owner by their own names, before they are created. */
export const otherToolsNamed = (
  module: string,
  settings: Parameters<typeof exposedName>[0],
  tools: readonly { readonly name: string }[],
): OtherTools => otherToolsOf(() => tools.map(({ name }) => otherToolNamed(module, name, exposedName(settings, name))))

/** @param exposed exposed name of the tool */
function otherToolNamed(module: string, name: string, exposed: string): OtherTool {
  return {
    name,
    spellings: () => [name, `${module}.${name}`, exposed, `${removeOwnerPrefix(module)}.${name}`],
  }
}
