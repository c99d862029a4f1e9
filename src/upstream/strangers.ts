import type { Catalog } from '../catalog/catalog.ts'
import { exposedName } from '../catalog/naming.ts'
import type { Tool } from '../core/tool.ts'
import type { Strangers } from '../trust/assess.ts'
import { type Stranger, strangersAmong, strangersOf } from '../trust/strangers.ts'

/** Tools of all other owners, and how texts speak of them: an owner is gone through once, however many come after it. */
export const strangersTo = (catalog: Catalog, module: string): Strangers =>
  strangersAmong(() =>
    [...catalog.snapshot().owners.values()].flatMap((owner) => {
      // Those that nobody looked at yet come after this one.
      if (owner.id === module || owner.unread) return []
      const { tools, withheld } = owner
      // What is kept out is there all the same, and may be let in.
      const out = withheld.length === 0 ? [] : [strangersOf(() => withheld.map(({ tool }) => strangerOf(tool)))]
      if (tools.length === 0) return out
      const known = strangers.get(tools) ?? strangersOf(() => tools.map(strangerOf))
      strangers.set(tools, known)
      return [known, ...out]
    }),
  )

const strangers = new WeakMap<readonly Tool[], Strangers>()

const strangerOf = (tool: Tool): Stranger => {
  const { id, module, name: wire, ownNames } = tool
  // Read when a namesake comes: a description may be parsed for it.
  return Object.create(strangerNamed(module, ownNames?.[0] ?? id.slice(module.length + 1), wire), {
    description: { get: () => tool.description },
  })
}

/** Tools of one owner by their own names, before they are made. */
export const strangersNamed = (
  module: string,
  settings: Parameters<typeof exposedName>[0],
  tools: readonly { readonly name: string }[],
): Strangers => strangersOf(() => tools.map(({ name }) => strangerNamed(module, name, exposedName(settings, name))))

/** @param wire its name among the tools of all */
function strangerNamed(module: string, name: string, wire: string): Stranger {
  return { name, spellings: () => [name, `${module}.${name}`, wire, `${module.replace(/^(?:mcp|api)_/, '')}.${name}`] }
}
