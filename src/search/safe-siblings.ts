import type { Tool } from '../core/tool.ts'
import { stemOf, wordsOf } from './tokenize.ts'
import type { SearchHit } from './tool-search.ts'

const DELETES = new Set('del delete destroy discard drop erase purge remove rm trash unlink wipe'.split(' '))
const EDITS = new Set('archive change close complete disable edit modify patch rename resolve set update'.split(' '))

/**
 * How a request asks to delete something, in the languages of the atlas. `wordsOf` has removed accents, so each entry
 * is the beginning of a plain lower-case word; a space ends the word.
 */
const ASKS_TO_DELETE = new RegExp(
  `(?<!\\p{L})(?:${[
    'delet|del |destroy|discard|drop(?!box|down)|eras|purg|remov|rm |trash|unlink|wip(?:e|ing)|bin |cancel|clear|ditch|forget|get rid|kill|nuke|scrap|scrub|throw|toss',
    'annul|efface|enlev|jette|oubli|retir|supprim|vire|entfern|losch|loesch|schmeiss|vergiss|wirf',
    'apag|borr|elimin|esque|exclu|olvid|quita|remov|tira|cancell|dimentic|rimuov|togli',
    'gooi|haal|schrap|verwijder|wis |anuluj|skasuj|usun|wywal|zapomn|iptal|kald[iı]r|sil |silin|unut|забуд|отмен|сотр|убер|удал',
  ].join('|')})|删|移除|去掉|清除|取消|削除|消し|消す|消去|삭제|지워|지우|없애|취소|حذف|امسح|ازل|الغ`,
  'u',
)

type ToolEffect = Pick<Tool, 'id' | 'effect'>

/**
 * The tools that change what `tool` deletes and are not destructive: `update_issue` for `delete_issue`. Both names need
 * the same words beside the verb.
 * @param others tools of the same owner
 */
export function safeSiblingsOf(tool: ToolEffect, others: readonly ToolEffect[]): readonly string[] {
  const object = tool.effect === 'destructive' ? objectOf(tool.id, DELETES) : undefined
  if (object === undefined) return []
  return others
    .filter(({ id, effect }) => effect !== 'destructive' && objectOf(id, EDITS) === object)
    .map(({ id }) => id)
}

/** The words of a tool's name beside the verb, in alphabetical order; undefined if there is no such verb or no other word. */
function objectOf(id: string, verbs: ReadonlySet<string>): string | undefined {
  const words = wordsOf(id.slice(id.indexOf('.') + 1)).flatMap(({ text, parts }) => (parts.length > 0 ? parts : [text]))
  const otherWords = words.filter((word) => !verbs.has(word))
  if (otherWords.length === words.length || otherWords.length === 0) return undefined
  return [...new Set(otherWords.map(stemOf))].sort().join(' ')
}

export const asksToDelete = (query: string): boolean =>
  ASKS_TO_DELETE.test(`${query.normalize('NFKD').replaceAll(/\p{M}/gu, '').normalize('NFC').toLowerCase()} `)

/**
 * Adds the safe sibling of each destructive tool of an answer, beyond the limit of the answer. The sibling comes before the
 * destructive tool, or at the end if the query asks to delete.
 * @param queryOf the query that a hit answers
 * @param siblingsOf see `safeSiblingsOf`
 */
export function withSafeSiblings(
  hits: readonly SearchHit[],
  queryOf: (hit: SearchHit) => string,
  siblingsOf: (id: string) => readonly string[],
): readonly SearchHit[] {
  const answer = [...hits]
  for (const hit of hits) {
    // The query names this tool and no other.
    const siblings = hit.score === 1 ? [] : siblingsOf(hit.id)
    const id = siblings.find((siblingId) => answer.some((other) => other.id === siblingId)) ?? siblings[0]
    if (id === undefined) continue
    const index = answer.indexOf(hit)
    const siblingIndex = answer.findIndex((other) => other.id === id)
    const wantsDeletion = asksToDelete(queryOf(hit))
    if (siblingIndex >= 0 && (siblingIndex < index || wantsDeletion)) continue
    const [existing] = siblingIndex >= 0 ? answer.splice(siblingIndex, 1) : []
    const position = wantsDeletion ? answer.length : index
    const { score } = (answer[position] ?? answer.at(-1)) as SearchHit
    const queryField = hit.query === undefined ? {} : { query: hit.query }
    answer.splice(position, 0, { matched: [], ...queryField, ...existing, id, score })
  }
  return answer
}
