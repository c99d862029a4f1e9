import type { OwnerInfo } from '../catalog/owner.ts'
import type { Tool } from '../core/tool.ts'
import { wireName } from '../core/tool-names.ts'
import type { ModuleInstance } from './module-instance.ts'

type CatalogEntry = ModuleInstance['info'] & { readonly tools: readonly Tool[] }

/** Renames a module for the catalog: `pegboard_filesystem.read` instead of `filesystem.read`. */
export function renameModule({ id, info, tools }: ModuleInstance, shownId: string): CatalogEntry {
  if (id === shownId) return { ...info, tools }
  const idOf = (tool: string): string => `${shownId}${tool.slice(id.length)}`
  const toolResources: OwnerInfo['toolResources'] = info.toolResources?.map((reading) => ({
    ...reading,
    tool: idOf(reading.tool),
  }))
  return {
    ...info,
    ...(toolResources && { toolResources }),
    tools: tools.map((tool) =>
      // Uses a prototype instead of spread, because definitions may be lazy getters.
      Object.create(tool, {
        id: { value: idOf(tool.id), enumerable: true },
        name: { value: wireName(idOf(tool.id)), enumerable: true },
        module: { value: shownId, enumerable: true },
      }),
    ),
  }
}
