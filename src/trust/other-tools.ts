import { groupBy } from '../core/group-by.ts'
import { skeleton } from '../core/lookalike.ts'
import { foldName } from '../core/name-folding.ts'
import { once } from '../core/once.ts'
import type { OtherTools } from './assess-tools.ts'
import { isToolShaped, normalizeName } from './steering.ts'

/** A tool of another owner: its name there, and the ways a text may spell it. */
export interface OtherTool {
  readonly name: string
  readonly description?: string
  spellings(): readonly string[]
}

const NONE: readonly string[] = []

/** The tools of one owner, as seen by all others. Built on first use. */
export function otherToolsOf(tools: () => Iterable<OtherTool>): OtherTools {
  const namesBySkeleton = once(() => new Map([...tools()].map(({ name }) => [skeleton(name), name])))
  // Plain words never count as a mention: "GitHub" does not mean a tool named `github`.
  const spellings = once(
    () => new Set([...tools()].flatMap((tool) => tool.spellings().filter(isToolShaped).map(normalizeName))),
  )
  const toolsByName = once(() => groupBy(tools(), ({ name }) => foldName(name)))
  const findLookalikes = (nameSkeleton: string): readonly string[] => {
    const name = namesBySkeleton().get(nameSkeleton)
    return name === undefined ? NONE : [name]
  }
  return {
    lookalikes: findLookalikes,
    isSpelling: (spelling) => spellings().has(spelling),
    descriptionsOf: (name) =>
      toolsByName()
        .get(foldName(name))
        ?.flatMap(({ description }) => description ?? NONE) ?? NONE,
  }
}

/** The tools of several owners combined. */
export function mergeOtherTools(owners: () => readonly OtherTools[]): OtherTools {
  const getOwners = once(owners)
  const cache = new Map<string, boolean>()
  return {
    lookalikes(nameSkeleton) {
      let lookalikes = NONE
      for (const owner of getOwners()) {
        const names = owner.lookalikes(nameSkeleton)
        if (names.length > 0) lookalikes = [...lookalikes, ...names]
      }
      return lookalikes
    },
    descriptionsOf: (name) => getOwners().flatMap((owner) => owner.descriptionsOf(name)),
    isSpelling(spelling) {
      // Servers often use the same phrases in many tools.
      const cached = cache.get(spelling)
      if (cached !== undefined) return cached
      const isKnown = getOwners().some((owner) => owner.isSpelling(spelling))
      cache.set(spelling, isKnown)
      return isKnown
    },
  }
}
