import type { Exposure } from '../view/exposure.ts'
import type { View } from '../view/view.ts'

const MAX_CHARS = 2_000
/** Categories named; the rest are found by list_categories. */
const SHOWN = 12

/** What a client's model is told when it connects. Kept under 2 KB, because clients cut there. */
export function instructionsFor(view: View, exposure: Exposure, extra: string | undefined): string {
  const domains = view.owners.filter((owner) => view.count(owner.id) > 0)
  const named = domains.slice(0, SHOWN).map((owner) => owner.id)
  const counted = `Pegboard gathers ${view.size} tools in ${domains.length} categories: ${[...named, ...(domains.length > SHOWN ? ['…'] : [])].join(', ')}.`
  const how = {
    direct: 'They are all listed; call them by name.',
    compact:
      'They are listed by name without schemas: call get_tool for the parameters first, or execute_tool with name and params.',
    discovery: [
      'Most are not listed. To use one:',
      '1. search_tools with what you want to do, in any words (or list_categories, browse_category).',
      '2. get_tool when the parameters in the answer are not enough.',
      '3. execute_tool with name and params.',
    ].join('\n'),
  }[exposure.mode]
  const waiting = view.owners.flatMap(({ notice }) => notice ?? [])
  const kept =
    waiting.length > 0
      ? [
          `Some tools are kept out until the operator has looked at them. Tell the user: ${waiting.slice(0, 3).join('; ')}.`,
        ]
      : []
  const text = [counted, how, ...kept, ...(extra ? [extra] : [])].join('\n')
  return text.length <= MAX_CHARS
    ? text
    : [`Pegboard gathers ${view.size} tools in ${domains.length} categories.`, how, ...(extra ? [extra] : [])]
        .join('\n')
        .slice(0, MAX_CHARS)
}
