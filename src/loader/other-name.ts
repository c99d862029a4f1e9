import type { OwnerInfo } from '../catalog/catalog.ts'
import { wireName } from '../core/names.ts'
import type { Tool } from '../core/tool.ts'
import type { Instance } from './instance.ts'

/** Before the name of a bundled module whose own name belongs to a configured server. */
export const OWN = 'pegboard_'

type Shown = Instance['info'] & { readonly tools: readonly Tool[] }

/** What the catalogue is told of a module under this id: `pegboard_filesystem.read` instead of `filesystem.read`. */
export function shownUnder({ id, info, tools }: Instance, shown: string): Shown {
  if (id === shown) return { ...info, tools }
  const idOf = (tool: string): string => `${shown}${tool.slice(id.length)}`
  const readings: OwnerInfo['readings'] = info.readings?.map((reading) => ({ ...reading, tool: idOf(reading.tool) }))
  return {
    ...info,
    ...(readings && { readings }),
    tools: tools.map((tool) =>
      // Prototype, not spread: definitions may be lazy getters.
      Object.create(tool, {
        id: { value: idOf(tool.id), enumerable: true },
        name: { value: wireName(idOf(tool.id)), enumerable: true },
        module: { value: shown, enumerable: true },
      }),
    ),
  }
}
