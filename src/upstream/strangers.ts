import type { Catalog } from '../catalog/catalog.ts'
import type { Tool } from '../core/tool.ts'
import type { Strangers } from '../trust/assess.ts'
import { type Stranger, strangersAmong, strangersOf } from '../trust/strangers.ts'

/** Tools of all other owners, and how texts speak of them: an owner is gone through once, however many come after it. */
export const strangersTo = (catalog: Catalog, module: string): Strangers =>
  strangersAmong(() =>
    [...catalog.snapshot().owners.values()].flatMap((owner) => {
      // Those that nobody looked at yet come after this one.
      if (owner.id === module || owner.unread) return []
      const { tools } = owner
      if (tools.length === 0) return []
      const known = strangers.get(tools) ?? strangersOf(() => tools.map(strangerOf))
      strangers.set(tools, known)
      return [known]
    }),
  )

const strangers = new WeakMap<readonly Tool[], Strangers>()

function strangerOf({ id, module, name: wire }: Tool): Stranger {
  const name = id.slice(module.length + 1)
  return {
    name,
    spellings: () => {
      const owner = module.replace(/^(?:mcp|api)_/, '')
      return [name, id, wire, `${owner}.${name}`, `${owner}:${name}`, `${owner}/${name}`]
    },
  }
}
