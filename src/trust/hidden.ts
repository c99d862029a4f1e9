import { once } from '../core/once.ts'
import { isNeeded, isRightToLeft } from '../core/unseen.ts'
import type { Finding, FindingCode } from './finding.ts'

// Tags, joiners, marks that turn text around, fillers, selectors, controls, private use, halves of pairs.
const SUSPECT = /(?![\n\r\t])\p{Cc}|\p{Cf}|\p{Co}|\p{Cs}|\p{Default_Ignorable_Code_Point}/u

/** Whether nothing in a value can be hidden, told from its JSON, which writes controls and halves of pairs out. */
export const hidesNothing = (json: string): boolean =>
  (!NOT_ASCII.test(json) || !SUSPECT.test(json)) && !/\\[bfru]/.test(json)

const NOT_ASCII = /[^\x20-\x7e]/

// The only emoji made of tags: the flags of England, Scotland and Wales.
const FLAG = /^(gbeng|gbsct|gbwls)\u007f$/

const MOST_RUNS = 500

/** Finds what a person reading `text` would not see. Text that needs joiners or selectors keeps them. */
export function findHidden(text: string, where: string): Finding[] {
  if (!SUSPECT.test(text)) return []
  const found: Finding[] = []
  const letters = [...text]
  const isRtl = isRightToLeft(text)
  let runs = 0
  for (let at = 0; at < letters.length; at++) {
    const char = letters[at] as string
    if (!SUSPECT.test(char)) continue
    // A text with one of these is out already.
    if (++runs > MOST_RUNS && found.some(({ level }) => level === 'block')) break
    const end = runEnd(letters, at)
    const run = letters.slice(at, end)
    const said = faultOf(run, letters[at - 1] ?? '', letters[end] ?? '', isRtl)
    const level = said?.note === true ? 'note' : 'block'
    if (said && !found.some((one) => one.code === said.code && one.level === level))
      found.push({ code: said.code, level, where, what: said.what, evidence: around(letters, at, end) })
    at = end - 1
  }
  return found
}

function runEnd(letters: readonly string[], start: number): number {
  let end = start + 1
  while (end < letters.length && SUSPECT.test(letters[end] as string)) end++
  return end
}

interface Fault {
  readonly code: FindingCode
  readonly what: string
  readonly note?: boolean
}

/** What is wrong with a run of unseen characters, if anything is. */
function faultOf(run: readonly string[], before: string, after: string, isRtl: boolean): Fault | undefined {
  const text = run.join('')
  const tags = decodeTags(run)
  if (tags !== undefined) {
    if (before === '\u{1F3F4}' && FLAG.test(tags)) return undefined
    return { code: 'hidden-tags', what: `has hidden Unicode tags that say ${quoted(tags)}` }
  }
  if (/\p{Cc}/u.test(text))
    return text.includes('\u001b')
      ? { code: 'hidden-control', what: 'has a terminal escape sequence' }
      : { code: 'hidden-control', what: `has the control character ${escaped(text)}` }
  if (/[\u202A-\u202E]/.test(text) || (/[\u2066-\u2069\u200E\u200F\u061C]/.test(text) && !isRtl))
    return { code: 'hidden-bidi', what: 'has characters that change the direction of the text' }
  if (/[\u2066-\u2069\u200E\u200F\u061C]/.test(text) && run.length <= 2) return undefined
  if (/\p{Co}|\p{Cs}/u.test(text))
    return { code: 'hidden-private-use', what: 'has characters that mean nothing outside a private agreement' }
  const selectors = run.filter((char) => selectorValue(char) !== undefined)
  if (selectors.length > 1)
    return {
      code: 'hidden-selectors',
      what: `has variation selectors that carry ${quoted(decodeSelectors(selectors))}`,
    }
  return zeroWidthFault(run, before, after)
}

function zeroWidthFault(run: readonly string[], before: string, after: string): Fault | undefined {
  const [only = ''] = run
  const text = run.join('')
  if (isNeeded(text, before, after)) return undefined
  if (run.length === 1) {
    // A mark of the byte order at the very start, and where a word may be broken, are left over from other programs.
    if (only === '\uFEFF' && before === '')
      return { code: 'hidden-zero-width', what: 'begins with a byte order mark', note: true }
    if (only === '\u00AD') return { code: 'hidden-zero-width', what: 'has soft hyphens', note: true }
    if (/[\u0600-\u0605\u06DD\u070F\u08E2\u{110BD}]/u.test(only)) return undefined
  }
  return { code: 'hidden-zero-width', what: `has characters without width (${escaped(text.slice(0, 12))})` }
}

/** What Unicode tags spell, in ASCII; undefined when there are none. */
function decodeTags(run: readonly string[]): string | undefined {
  const codes = run.map((char) => char.codePointAt(0) as number).filter((code) => code >= 0xe0000 && code <= 0xe007f)
  return codes.length === 0 ? undefined : String.fromCharCode(...codes.slice(0, 400).map((code) => code - 0xe0000))
}

/** Selectors can carry bytes: U+FE00 to U+FE0F are 0 to 15, U+E0100 and on are 16 to 255. */
function selectorValue(char: string): number | undefined {
  const code = char.codePointAt(0) as number
  if (code >= 0xfe00 && code <= 0xfe0f) return code - 0xfe00
  return code >= 0xe0100 && code <= 0xe01ef ? code - 0xe0100 + 16 : undefined
}

const decodeSelectors = (selectors: readonly string[]): string =>
  Buffer.from(selectors.slice(0, 400).map((char) => selectorValue(char) as number)).toString('utf8')

const quoted = (text: string): string => JSON.stringify(escaped(text.length > 300 ? `${text.slice(0, 300)}…` : text))

const unseen = once(() => new RegExp(`${SUSPECT.source}|\\r`, 'gu'))

/** Everything that cannot be seen as `\u{202E}`; lines and tabs stay. */
export const escaped = (text: string): string =>
  text.replaceAll(unseen(), (char) => `\\u{${(char.codePointAt(0) as number).toString(16).toUpperCase()}}`)

/** The same on one line. */
export const escapedLine = (text: string): string => escaped(text).replaceAll(/\s+/g, ' ')

function around(letters: readonly string[], start: number, end: number): string {
  const shown = letters
    .slice(Math.max(0, start - 30), Math.min(letters.length, Math.min(end, start + 12) + 30))
    .join('')
  return escaped(shown)
}
