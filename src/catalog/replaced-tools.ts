import type { Tool } from '../core/tool.ts'

/** The id of the tool that `replaces` names. `github.search` can mean `mcp_github.search`. */
export function replacedId(replaces: string, byId: ReadonlyMap<string, unknown>): string | undefined {
  return [replaces, `mcp_${replaces}`, `api_${replaces}`].find((id) => byId.has(id))
}

/**
 * Ids of the tools that are replaced, each with the id of its replacement. If tools replace each other in a circle, the
 * one that sorts first stays.
 */
export function replacedBy(byId: ReadonlyMap<string, Tool>): ReadonlyMap<string, string> {
  const targets = new Map<string, string>()
  for (const [id, { replaces }] of byId) {
    const target = replaces === undefined ? undefined : replacedId(replaces, byId)
    if (target !== undefined && target !== id) targets.set(id, target)
  }
  const hidden = new Map<string, string>()
  for (const [id, target] of targets) if (target !== firstOfCircle(id, targets)) hidden.set(target, id)
  return hidden
}

function firstOfCircle(id: string, targets: ReadonlyMap<string, string>): string | undefined {
  const circle = [id]
  for (let next = targets.get(id); next !== undefined && next !== id; next = targets.get(next)) {
    if (circle.includes(next)) return undefined
    circle.push(next)
  }
  return targets.get(circle.at(-1) as string) === id ? circle.sort()[0] : undefined
}
