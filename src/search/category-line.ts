import type { Owner } from '../catalog/owner.ts'
import type { Tool } from '../core/tool.ts'
import type { Atlas } from './atlas.ts'
import { bareNameOf } from './search-document.ts'
import { wordsOf } from './tokenize.ts'

const SHOWN_TOOLS = 4
const NAME_CHARACTERS = 40

/**
 * What a category is for, in plain words: the summary of the operator or the owner, otherwise the line of the atlas about a
 * known server, otherwise the names of some tools.
 * @param tools of the owner that the caller sees
 */
export function categoryLine(owner: Owner, tools: readonly Tool[], atlas: Atlas | undefined): string {
  return owner.summary || (atlas?.lineOf(tools) ?? namesOf(tools))
}

/** "create entities, add observations, read graph and 6 more" */
function namesOf(tools: readonly Tool[]): string {
  const names = tools.slice(0, SHOWN_TOOLS).map((tool) =>
    wordsOf(bareNameOf(tool))
      .flatMap(({ text, parts }) => (parts.length > 0 ? parts : [text]))
      .join(' ')
      .slice(0, NAME_CHARACTERS),
  )
  const moreCount = tools.length - names.length
  return moreCount > 0 ? `${names.join(', ')} and ${moreCount} more` : names.join(', ')
}
