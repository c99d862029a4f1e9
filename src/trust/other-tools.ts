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
  const shapes = once(() => new Map([...tools()].map(({ name }) => [skeleton(name), name])))
  // Plain words never count as a mention: "GitHub" does not mean a tool named `github`.
  const spellings = once(
    () => new Set([...tools()].flatMap((tool) => tool.spellings().filter(isToolShaped).map(normalizeName))),
  )
  const namesakes = once(() => groupBy(tools(), ({ name }) => foldName(name)))
  const shaped = (shape: string): readonly string[] => {
    const name = shapes().get(shape)
    return name === undefined ? NONE : [name]
  }
  return {
    lookalikes: shaped,
    isSpelling: (spelling) => spellings().has(spelling),
    descriptionsOf: (name) =>
      namesakes()
        .get(foldName(name))
        ?.flatMap(({ description }) => description ?? NONE) ?? NONE,
  }
}

/** The tools of several owners combined. */
export function mergeOtherTools(owners: () => readonly OtherTools[]): OtherTools {
  const all = once(owners)
  const answers = new Map<string, boolean>()
  return {
    lookalikes(shape) {
      let found = NONE
      for (const owner of all()) {
        const names = owner.lookalikes(shape)
        if (names.length > 0) found = [...found, ...names]
      }
      return found
    },
    descriptionsOf: (name) => all().flatMap((owner) => owner.descriptionsOf(name)),
    isSpelling(spelling) {
      // Servers often use the same phrases in many tools.
      const before = answers.get(spelling)
      if (before !== undefined) return before
      const isKnown = all().some((owner) => owner.isSpelling(spelling))
      answers.set(spelling, isKnown)
      return isKnown
    },
  }
}
