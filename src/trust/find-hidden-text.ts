import { isNeededJoiner, isRightToLeft } from '../core/invisible-characters.ts'
import { once } from '../core/once.ts'
import type { Finding, FindingCode } from './finding.ts'

// Tags, joiners, direction marks, fillers, variation selectors, controls, private use, lone surrogates.
const SUSPECT = /(?![\n\r\t])\p{Cc}|\p{Cf}|\p{Co}|\p{Cs}|\p{Default_Ignorable_Code_Point}/u

/** True if a value cannot contain hidden text. Tested on its JSON, which escapes controls and lone surrogates. */
export const hasNoHiddenText = (json: string): boolean =>
  (!NOT_ASCII.test(json) || !SUSPECT.test(json)) && !/\\[bfru]/.test(json)

const NOT_ASCII = /[^\x20-\x7e]/

// The only emoji that use tags: the flags of England, Scotland and Wales.
const FLAG = /^(gbeng|gbsct|gbwls)\u007f$/

const MAX_RUNS = 500

/** Finds characters that a reader would not see, except joiners and selectors that a script or emoji needs. */
export function findHidden(text: string, where: string): Finding[] {
  if (!SUSPECT.test(text)) return []
  const findings: Finding[] = []
  const letters = [...text]
  const isRtl = isRightToLeft(text)
  let runs = 0
  for (let start = 0; start < letters.length; start++) {
    const char = letters[start] as string
    if (!SUSPECT.test(char)) continue
    // A text with a `block` finding is rejected already.
    if (++runs > MAX_RUNS && findings.some(({ level }) => level === 'block')) break
    let end = start + 1
    while (end < letters.length && SUSPECT.test(letters[end] as string)) end++
    const run = letters.slice(start, end)
    const fault = findFault(run, letters[start - 1] ?? '', letters[end] ?? '', isRtl)
    const level = fault?.note === true ? 'note' : 'block'
    if (fault && !findings.some((finding) => finding.code === fault.code && finding.level === level))
      findings.push({ code: fault.code, level, where, what: fault.what, evidence: excerptAround(letters, start, end) })
    start = end - 1
  }
  return findings
}

interface Fault {
  readonly code: FindingCode
  readonly what: string
  readonly note?: boolean
}

/** The finding for a run of invisible characters, if there is one. */
function findFault(run: readonly string[], before: string, after: string, isRtl: boolean): Fault | undefined {
  const text = run.join('')
  const tags = decodeTags(run)
  if (tags !== undefined) {
    if (before === '\u{1F3F4}' && FLAG.test(tags)) return undefined
    return { code: 'hidden-tags', what: `has hidden Unicode tags that spell ${quoteEscaped(tags)}` }
  }
  if (/\p{Cc}/u.test(text))
    return text.includes('\u001b')
      ? { code: 'hidden-control', what: 'has a terminal escape sequence' }
      : { code: 'hidden-control', what: `has the control character ${escapeInvisible(text)}` }
  if (/[\u202A-\u202E]/.test(text) || (/[\u2066-\u2069\u200E\u200F\u061C]/.test(text) && !isRtl))
    return { code: 'hidden-bidi', what: 'has characters that change the direction of the text' }
  if (/[\u2066-\u2069\u200E\u200F\u061C]/.test(text) && run.length <= 2) return undefined
  if (/\p{Co}|\p{Cs}/u.test(text)) return { code: 'hidden-private-use', what: 'has private-use characters' }
  const selectors = run.filter((char) => selectorValue(char) !== undefined)
  if (selectors.length > 1)
    return {
      code: 'hidden-selectors',
      what: `has variation selectors that carry ${quoteEscaped(decodeSelectors(selectors))}`,
    }
  return findZeroWidthFault(run, before, after)
}

function findZeroWidthFault(run: readonly string[], before: string, after: string): Fault | undefined {
  const [char = ''] = run
  const text = run.join('')
  if (isNeededJoiner(text, before, after)) return undefined
  if (run.length === 1) {
    // A byte order mark at the start, and soft hyphens, are harmless leftovers of other programs.
    if (char === '\uFEFF' && before === '')
      return { code: 'hidden-zero-width', what: 'begins with a byte order mark', note: true }
    if (char === '\u00AD') return { code: 'hidden-zero-width', what: 'has soft hyphens', note: true }
    if (/[\u0600-\u0605\u06DD\u070F\u08E2\u{110BD}]/u.test(char)) return undefined
  }
  return { code: 'hidden-zero-width', what: `has zero-width characters (${escapeInvisible(text.slice(0, 12))})` }
}

/** The ASCII text that Unicode tags spell; undefined if there are none. */
function decodeTags(run: readonly string[]): string | undefined {
  const codes = run.map((char) => char.codePointAt(0) as number).filter((code) => code >= 0xe0000 && code <= 0xe007f)
  return codes.length === 0 ? undefined : String.fromCharCode(...codes.slice(0, 400).map((code) => code - 0xe0000))
}

/** Variation selectors can encode bytes: U+FE00 to U+FE0F are 0 to 15, U+E0100 and above are 16 to 255. */
function selectorValue(char: string): number | undefined {
  const code = char.codePointAt(0) as number
  if (code >= 0xfe00 && code <= 0xfe0f) return code - 0xfe00
  return code >= 0xe0100 && code <= 0xe01ef ? code - 0xe0100 + 16 : undefined
}

const decodeSelectors = (selectors: readonly string[]): string =>
  Buffer.from(selectors.slice(0, 400).map((char) => selectorValue(char) as number)).toString('utf8')

const quoteEscaped = (text: string): string =>
  JSON.stringify(escapeInvisible(text.length > 300 ? `${text.slice(0, 300)}…` : text))

const invisiblePattern = once(() => new RegExp(`${SUSPECT.source}|\\r`, 'gu'))

/** Writes invisible characters as `\u{202E}`; line breaks and tabs stay. */
export const escapeInvisible = (text: string): string =>
  text.replaceAll(invisiblePattern(), (char) => `\\u{${(char.codePointAt(0) as number).toString(16).toUpperCase()}}`)

/** The same on one line. */
export const escapeLine = (text: string): string => escapeInvisible(text).replaceAll(/\s+/g, ' ')

function excerptAround(letters: readonly string[], start: number, end: number): string {
  const excerpt = letters
    .slice(Math.max(0, start - 30), Math.min(letters.length, Math.min(end, start + 12) + 30))
    .join('')
  return escapeInvisible(excerpt)
}
