import { ToolError } from 'pegboard'
import { isReferenceId } from '../_reference-ids.ts'

/** Somebody named in a text: `Name (id)`, or `[Name](id)`. */
export interface Reference {
  readonly name: string
  readonly id: string
}

/** A link, or an id in parentheses, wide ones too; other parentheses are plain text, and so are links to pages. */
const LINK = /\[([^\]\n]*)\]\(([^()\n]*)\)/g
const BEHIND = /([^\s()（）]*)\s*[(（]\s*((?:tg|maep|slack|discord):[^()（）\n]*)[)）]/g
const PAGE = /^(?:[a-z][a-z0-9+.-]*:\/\/|mailto:|#|\/)/i

export function referencesIn(text: string): readonly Reference[] {
  const links = [...text.matchAll(LINK)].filter(([, , to = '']) => !PAGE.test(to.trim()))
  const others = [...text.replaceAll(LINK, '').matchAll(BEHIND)]
  return [...links, ...others].map(([, name = '', id = '']) => ({ name: name.trim(), id: id.trim() }))
}

/** @throws ToolError where one names nobody, or nobody who can be reached */
export function checkReferences(references: readonly Reference[], reachable: ReadonlySet<string>): void {
  const hint = 'Use an id of contacts/ACTIVE.md, or leave the name without one: it is looked up.'
  const fail = (message: string): ToolError => new ToolError(message, { code: 'E_VALIDATION', hint })
  for (const { name, id } of references) {
    if (id === '') throw fail(`missing_reference_id: [${name}]() names nobody`)
    if (!isReferenceId(id)) throw fail(`invalid reference id: ${id}`)
    if (!reachable.has(folded(id))) throw fail(`reference id is not reachable: ${id}`)
  }
}

/** Names of users are the same in any case. */
export const folded = (id: string): string => (id.startsWith('tg:@') ? id.toLowerCase() : id)

const SELF =
  /(?:^|[^\p{L}\p{N}_])(?:I|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself|[Ww]e|us|Us|[Oo]ur|[Oo]urs|[Oo]urselves)(?=$|[^\p{L}\p{N}_])|我|本人/u

/** Whether somebody speaks of themselves without a reference behind it. */
export const speaksOfUnknownSelf = (text: string): boolean =>
  SELF.test(text.replaceAll(LINK, ' ').replaceAll(BEHIND, ' '))
