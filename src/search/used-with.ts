import type { Tool } from '../core/tool.ts'
import type { Atlas } from './atlas.ts'
import { bareNameOf } from './search-document.ts'
import { wordsOf } from './tokenize.ts'

/** Ids of tools of the same server. */
export interface UsedWith {
  readonly before: readonly string[]
  readonly after: readonly string[]
}

const MAX_TOOLS = { before: 1, after: 2 } as const

/** Verbs of tools that prepare another call. */
const PREPARES =
  'add auth authenticate clone connect create init initialize install launch login open set start upload'.split(' ')
const VERBS = new Set([...PREPARES, ...'delete find generate get list query read search send update'.split(' ')])

const verbsOf = (tool: Tool): string[] =>
  wordsOf(bareNameOf(tool)).flatMap(({ text, parts }) => [text, ...parts].filter((word) => VERBS.has(word)))

/**
 * The tools that are often called before and after this one: first those of this principal, then those of the atlas. Before it,
 * the atlas adds only tools that prepare something, such as `git_add` for `git_commit`, because models read first without being
 * told. The atlas adds no tool with the same verb, which is an alternative: `generate_pie_chart` for `generate_bar_chart`.
 * @param others tools of the same owner that the caller sees and that the answer does not list
 * @param ownCalls ids of tools that this principal called before and after it
 * @returns undefined if there are none
 */
export function findUsedWith(
  tool: Tool,
  others: readonly Tool[],
  atlas: Atlas | undefined,
  ownCalls: UsedWith = { before: [], after: [] },
): UsedWith | undefined {
  const atlasNeighbours = atlas?.neighboursOf(tool) ?? { before: [], after: [] }
  const byName = new Map(others.map((other) => [bareNameOf(other).toLowerCase(), other]))
  const byId = new Map(others.map((other) => [other.id, other]))
  const verbs = verbsOf(tool)
  const calledTools = (when: keyof UsedWith): Tool[] => ownCalls[when].flatMap((id) => byId.get(id) ?? [])
  const atlasTools = (when: keyof UsedWith): Tool[] =>
    atlasNeighbours[when]
      .flatMap((name) => byName.get(name.toLowerCase()) ?? [])
      .filter((other) => !verbsOf(other).some((verb) => verbs.includes(verb)))
  const preparing = atlasTools('before').filter((other) => verbsOf(other).some((verb) => PREPARES.includes(verb)))
  const before = [...calledTools('before'), ...preparing].filter(({ effect }) => effect === 'write')
  const after = [...calledTools('after'), ...atlasTools('after')]
  const firstIds = (tools: readonly Tool[], most: number): string[] =>
    [...new Set(tools)].slice(0, most).map(({ id }) => id)
  const result = { before: firstIds(before, MAX_TOOLS.before), after: firstIds(after, MAX_TOOLS.after) }
  return result.before.length + result.after.length > 0 ? result : undefined
}
