import type { Tool } from '../core/tool.ts'
import { actionOf, removeOwnerPrefix } from '../core/tool-names.ts'
import type { Snapshot } from './catalog.ts'

/** The tools with this name in any spelling, including those that no caller sees or that wait for a review. */
export function toolsNamed({ tools, owners }: Pick<Snapshot, 'tools' | 'owners'>, name: string): readonly Tool[] {
  const all = [...tools, ...[...owners.values()].flatMap(({ quarantined }) => quarantined.map(({ tool }) => tool))]
  const dotted = name.replace(/__|::|:|\//, '.').toLowerCase()
  const withSpelling = (spellings: (tool: Tool) => readonly string[]): Tool[] =>
    all.filter((tool) => spellings(tool).some((one) => one.toLowerCase() === dotted))
  const exact = withSpelling(({ id, name: wire }) => [id, wire.replace('__', '.'), removeOwnerPrefix(id)])
  return exact.length > 0 ? exact : withSpelling((tool) => [actionOf(tool), ...tool.aliases])
}
