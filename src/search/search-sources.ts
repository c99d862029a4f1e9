import type { Snapshot } from '../catalog/catalog.ts'
import type { Owner } from '../catalog/owner.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Tool } from '../core/tool.ts'
import type { SearchSource } from './search-document.ts'
import { hashOf } from './word-pieces.ts'

export function sourcesOf({ tools, owners }: Snapshot): SearchSource[] {
  const stamps = new Map<string, number>()
  const stampOf = (module: string, owner: Owner | undefined): number =>
    getOrInsert(stamps, module, () => hashOf(JSON.stringify([module, owner?.about, owner?.synonyms])))
  return tools.map((tool) => {
    const owner = owners.get(tool.module)
    if (tool.stamp === undefined) return getCachedSource(tool, owner)
    // A sum of 48 bits is exact in a double.
    const stamp = tool.stamp + (hashOf(tool.name) ^ stampOf(tool.module, owner)) * 0x10000
    return Object.assign(Object.create(sourcePrototype), { id: tool.id, stamp, tool, owner })
  })
}

/** Cached per tool and owner description, so that search does not read the same source twice. */
const sources = new WeakMap<Tool, { readonly owner: Owner | undefined; readonly source: SearchSource }>()

function getCachedSource(tool: Tool, owner: Owner | undefined): SearchSource {
  const cached = sources.get(tool)
  if (cached && cached.owner?.about === owner?.about && cached.owner?.synonyms === owner?.synonyms) return cached.source
  const source: SearchSource = Object.assign(Object.create(sourcePrototype), { id: tool.id, tool, owner })
  sources.set(tool, { owner, source })
  return source
}

// Getters instead of copies: a definition may still be unparsed bytes, and search reads it once.
const sourcePrototype: Omit<SearchSource, 'id' | 'stamp'> & ThisType<{ tool: Tool; owner: Owner | undefined }> = {
  get name() {
    return this.tool.name
  },
  get module() {
    return this.tool.module
  },
  get title() {
    return this.tool.title
  },
  get description() {
    return this.tool.description
  },
  get aliases() {
    return [...this.tool.aliases, ...(this.tool.searchPhrases ?? [])]
  },
  get tags() {
    return this.tool.tags
  },
  get sideEffects() {
    return this.tool.sideEffects
  },
  get inputJson() {
    return this.tool.input.json as Record<string, unknown>
  },
  get origin() {
    return this.tool.origin
  },
  get moduleDescription() {
    return this.owner?.about
  },
  get synonyms() {
    return this.owner?.synonyms
  },
}
