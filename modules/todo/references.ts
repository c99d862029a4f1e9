import type { ToolError } from 'pegboard'
import { invalid } from '../_errors.ts'
import { isReferenceId } from '../_reference-ids.ts'

/** A person named in a text: `Name (id)` or `[Name](id)`. */
export interface Reference {
  readonly name: string
  readonly id: string
}

/** A link, or an id in parentheses (also full-width); other parentheses and links to pages are plain text. */
const LINK = /\[([^\]\n]*)\]\(([^()\n]*)\)/g
const BEHIND = /([^\s()（）]*)\s*[(（]\s*((?:tg|maep|slack|discord):[^()（）\n]*)[)）]/g
const PAGE = /^(?:[a-z][a-z0-9+.-]*:\/\/|mailto:|#|\/)/i

export function referencesIn(text: string): readonly Reference[] {
  const links = [...text.matchAll(LINK)].filter(([, , to = '']) => !PAGE.test(to.trim()))
  const otherLinks = [...text.replaceAll(LINK, '').matchAll(BEHIND)]
  return [...links, ...otherLinks].map(([, name = '', id = '']) => ({ name: name.trim(), id: id.trim() }))
}

/** @throws ToolError for a reference to someone unknown or unreachable */
export function checkReferences(references: readonly Reference[], reachable: ReadonlySet<string>): void {
  const hint = 'Use an id from contacts/ACTIVE.md, or leave the name without one: it is looked up.'
  const fail = (message: string): ToolError => invalid(message, hint)
  for (const { name, id } of references) {
    if (id === '') throw fail(`missing_reference_id: [${name}]() names nobody`)
    if (!isReferenceId(id)) throw fail(`invalid reference id: ${id}`)
    if (!reachable.has(foldId(id))) throw fail(`reference id is not reachable: ${id}`)
  }
}

/** User names are case-insensitive. */
export const foldId = (id: string): string => (id.startsWith('tg:@') ? id.toLowerCase() : id)

const SELF =
  /(?:^|[^\p{L}\p{N}_])(?:I|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself|[Ww]e|us|Us|[Oo]ur|[Oo]urs|[Oo]urselves)(?=$|[^\p{L}\p{N}_])|我|本人/u

/** True if the text refers to its author without a reference. */
export const speaksOfUnknownSelf = (text: string): boolean =>
  SELF.test(text.replaceAll(LINK, ' ').replaceAll(BEHIND, ' '))
