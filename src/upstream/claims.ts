import type { Catalog, Endpoints } from '../catalog/catalog.ts'
import type { Log } from '../core/log.ts'
import type { Listing } from './listing.ts'

/** Resources of others that it lists, of which operators are told. */
const MAX_DISPUTED = 20

interface Own extends Pick<Endpoints, 'hadSince'> {
  lists(uris: readonly string[]): void
}

/** What a server lists is its own unless another had it before, which is told once for each. */
export function createClaims(
  catalog: Catalog,
  module: string,
  own: Own,
  log: Log,
): (resources: Listing['resources']) => void {
  const disputed = new Set<string>()
  return (resources) => {
    const uris = resources.map(({ uri }) => String(uri))
    const fresh = uris.filter((uri) => own.hadSince?.(uri) === undefined && !disputed.has(uri))
    own.lists(uris)
    if (fresh.length === 0) return
    for (const { id: other, endpoints: theirs } of catalog.snapshot().owners.values())
      for (const uri of other === module ? [] : fresh) {
        if (disputed.size >= MAX_DISPUTED || theirs?.hadSince?.(uri) === undefined) continue
        disputed.add(uri)
        log.warn(`lists a resource that ${other} had before and goes on answering for`, { uri: uri.slice(0, 200) })
      }
  }
}
