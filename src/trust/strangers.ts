import { foldName } from '../core/fold.ts'
import { skeleton } from '../core/lookalike.ts'
import { once } from '../core/once.ts'
import type { Strangers } from './assess.ts'
import { isToolShaped, spelled } from './steering.ts'

/** A tool of somebody else: its name there, and the ways a text may speak of it. */
export interface Stranger {
  readonly name: string
  readonly description?: string
  spellings(): readonly string[]
}

const NONE: readonly string[] = []

/** The tools of one owner as strangers to all others. Made when somebody asks. */
export function strangersOf(tools: () => Iterable<Stranger>): Strangers {
  const shapes = once(() => new Map([...tools()].map(({ name }) => [skeleton(name), name])))
  // Nobody is meant by a plain word: GitHub is no mention of a tool `github`.
  const spellings = once(
    () => new Set([...tools()].flatMap((tool) => tool.spellings().filter(isToolShaped).map(spelled))),
  )
  const namesakes = once(() => {
    const all = new Map<string, Stranger[]>()
    for (const tool of tools()) all.set(foldName(tool.name), [...(all.get(foldName(tool.name)) ?? []), tool])
    return all
  })
  const shaped = (shape: string): readonly string[] => {
    const name = shapes().get(shape)
    return name === undefined ? NONE : [name]
  }
  return {
    shaped,
    spelled: (spelling) => spellings().has(spelling),
    described: (name) =>
      namesakes()
        .get(foldName(name))
        ?.flatMap(({ description }) => description ?? NONE) ?? NONE,
  }
}

/** Those of several owners as one. */
export function strangersAmong(owners: () => readonly Strangers[]): Strangers {
  const all = once(owners)
  const asked = new Map<string, boolean>()
  return {
    shaped(shape) {
      let found = NONE
      for (const owner of all()) {
        const names = owner.shaped(shape)
        if (names.length > 0) found = [...found, ...names]
      }
      return found
    },
    described: (name) => all().flatMap((owner) => owner.described(name)),
    spelled(spelling) {
      // One server says the same things of many tools.
      const before = asked.get(spelling)
      if (before !== undefined) return before
      const known = all().some((owner) => owner.spelled(spelling))
      asked.set(spelling, known)
      return known
    },
  }
}
