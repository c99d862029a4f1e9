import { firstSentence } from '../core/first-sentence.ts'
import { toPrintable } from '../core/printable.ts'
import { sanitizeText } from '../core/sanitize.ts'
import { scrub } from '../core/scrub.ts'
import { checkEntry } from '../trust/definition-checks.ts'

const CHARACTERS = { min: 20, max: 120 } as const
/** Servers that say little more than what they are, and texts that tell the model what to do. */
const SAYS_LITTLE =
  /\bMCP\b|model context protocol|\binstructions\b|\b(?:always|call|important|must|never|prefer|should|you|your)\b|:$/i

/**
 * The first sentence of what a server says about itself, if it says what the server is for. No review covers it, so it
 * is dropped if it could be an instruction.
 */
export function serverLine(about: string | undefined, around: Parameters<typeof checkEntry>[1]): string | undefined {
  if (about === undefined) return undefined
  const line = firstSentence(toPrintable(scrub(sanitizeText(about))), CHARACTERS.max)
  if (line.length < CHARACTERS.min || SAYS_LITTLE.test(line)) return undefined
  return checkEntry({ description: about }, around).some(({ level }) => level !== 'note') ? undefined : line
}
