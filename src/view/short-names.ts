import type { Tool } from '../core/tool.ts'
import { distinctName, WIRE_NAME_MAX } from '../core/tool-names.ts'

/**
 * Shorter names for tools whose names are too long for a client, by id: cut, with a hash of the id, so that they do not
 * depend on other tools.
 * @param isTaken whether something else has the name
 */
export function shortNames(
  tools: ReadonlyMap<string, Tool>,
  max: number,
  isTaken: (name: string) => boolean,
): ReadonlyMap<string, string> {
  const short = new Map<string, string>()
  // No name is longer than this.
  if (max >= WIRE_NAME_MAX) return short
  const used = new Set<string>()
  for (const [id, { name }] of tools) {
    if (name.length <= max) continue
    let cut = distinctName(name, id, max)
    for (let n = 2; isTaken(cut) || used.has(cut); n++) cut = distinctName(name, `${id} ${n}`, max)
    used.add(cut)
    short.set(id, cut)
  }
  return short
}

/** The tool under another name. */
export const withName = (tool: Tool, name: string): Tool =>
  Object.create(tool, { name: { value: name, enumerable: true } })
