import type { Tool } from '../core/tool.ts'
import type { Atlas } from './atlas.ts'
import { bareNameOf } from './search-document.ts'
import { wordsOf } from './tokenize.ts'

/** Ids of tools of the same server. */
export interface UsedWith {
  readonly before: readonly string[]
  readonly after: readonly string[]
}

const MOST = { before: 1, after: 2 } as const

/** Verbs of tools that prepare another call. */
const PREPARES =
  'add auth authenticate clone connect create init initialize install launch login open set start upload'.split(' ')
const VERBS = new Set([...PREPARES, ...'delete find generate get list query read search send update'.split(' ')])

const verbsOf = (tool: Tool): string[] =>
  wordsOf(bareNameOf(tool)).flatMap(({ text, parts }) => [text, ...parts].filter((word) => VERBS.has(word)))

/**
 * The tools that are often called before and after this one: by this principal, then by others, from the atlas. Of the
 * atlas, only those count before it that prepare something: `git_add` before `git_commit`. That a model reads first needs
 * no advice. A tool with the same verb is an alternative: `generate_pie_chart` for `generate_bar_chart`.
 * @param others tools of the same owner that the caller sees and that the answer does not list
 * @param own ids of tools that this principal called before and after it
 * @returns undefined if there are none
 */
export function usedWith(
  tool: Tool,
  others: readonly Tool[],
  atlas: Atlas | undefined,
  own: UsedWith = { before: [], after: [] },
): UsedWith | undefined {
  const atlasNeighbours = atlas?.neighboursOf(tool) ?? { before: [], after: [] }
  const byName = new Map(others.map((other) => [bareNameOf(other).toLowerCase(), other]))
  const byId = new Map(others.map((other) => [other.id, other]))
  const verbs = verbsOf(tool)
  const mine = (when: keyof UsedWith): Tool[] => own[when].flatMap((id) => byId.get(id) ?? [])
  const ofAtlas = (when: keyof UsedWith): Tool[] =>
    atlasNeighbours[when]
      .flatMap((name) => byName.get(name.toLowerCase()) ?? [])
      .filter((other) => !verbsOf(other).some((verb) => verbs.includes(verb)))
  const preparing = ofAtlas('before').filter((other) => verbsOf(other).some((verb) => PREPARES.includes(verb)))
  const before = [...mine('before'), ...preparing].filter(({ effect }) => effect === 'write')
  const after = [...mine('after'), ...ofAtlas('after')]
  const first = (tools: readonly Tool[], most: number): string[] =>
    [...new Set(tools)].slice(0, most).map(({ id }) => id)
  const found = { before: first(before, MOST.before), after: first(after, MOST.after) }
  return found.before.length + found.after.length > 0 ? found : undefined
}
