import { once } from './once.ts'

const ESC = '\u001b'
const BEL = '\u0007'

// Controls except line breaks and tabs, direction controls, joiners, fillers and selectors; then tags, supplementary
// selectors and reserved code points, and the controls of shorthand, hieroglyphs and music.
const UNSEEN =
  '[\\0-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb]|[\\udb40-\\udb43][\\udc00-\\udfff]|\\ud82f[\\udca0-\\udca3]|\\ud80d[\\udc30-\\udc3f]|\\ud834[\\udd73-\\udd7a]'
// A lone surrogate. Removing what is between two of them would join them to a character.
const HALF = '[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]'
// Tested on every text; several times faster without the `u` flag.
const SUSPECT = new RegExp(`${UNSEEN}|\\r(?!\\n)|${HALF}`)
const HALVES = new RegExp(HALF, 'g')
const RUN = new RegExp(`(?:${UNSEEN})+`, 'g')

// Terminal commands with their content: operating system commands (OSC 8, OSC 52), control sequences, and
// two-character escapes; also in their one-byte C1 forms.
const COMMAND = once(
  () =>
    new RegExp(
      `(?:${ESC}\\]|\\u009d)[^${BEL}${ESC}\\u009c\\u009d]*(?:${BEL}|${ESC}\\\\|\\u009c)|(?:${ESC}\\[|\\u009b)[0-?]*[ -/]*[@-~]|${ESC}[ -/]*[0-~]`,
      'g',
    ),
)

const rightToLeft = once(() => /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u)
// Scripts in which joiners change letters: Persian and Arabic, Indic scripts, Mongolian.
const joining = once(
  () =>
    /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}\p{M}]/u,
)
// Scripts without spaces, in which U+200B marks a possible line break.
const spaceless = once(
  () =>
    /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u,
)
const picture = once(() => /[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}]/u)
const emoji = once(() => /(?![\d#*])\p{Emoji}/u)
const ideograph = once(() => /\p{Script=Han}/u)
const mongolian = once(() => /\p{Script=Mongolian}/u)
const hieroglyph = once(() => /\p{Script=Egyptian_Hieroglyphs}/u)
// The only emoji made of tags: the flags of England, Scotland and Wales.
const FLAG =
  /^\u{E0067}\u{E0062}(?:\u{E0065}\u{E006E}\u{E0067}|\u{E0073}\u{E0063}\u{E0074}|\u{E0077}\u{E006C}\u{E0073})\u{E007F}$/u
const MARKS = /^[\u200e\u200f\u061c]{1,2}$/
const OF_MONGOLIAN = /^[\u180b-\u180d\u180f]$/
const OF_IDEOGRAPH = /^(?:[\ufe00-\ufe02]|\udb40[\udd00-\uddef])$/
const OF_HIEROGLYPH = /^\ud80d[\udc30-\udc3f]$/

/** True if a text, or part of a JSON text, may contain anything that `removeInvisible` removes. */
export const mayContainInvisible = (text: string): boolean => SUSPECT.test(text)

export const isRightToLeft = (text: string): boolean => rightToLeft().test(text)

/** True if a joiner, selector or word break is where a script or an emoji needs it. */
export function isNeededJoiner(run: string, before: string, after: string): boolean {
  if (run === '\u200d') return joining().test(before) || (picture().test(before) && picture().test(after))
  if (run === '\u200c') return joining().test(before)
  if (run === '\u200b') return spaceless().test(before) || spaceless().test(after)
  // ❤️‍🔥 has a selector followed by a joiner.
  if (run === '\ufe0f\u200d') return picture().test(after)
  // 1️⃣ is three characters. After other digits a selector could encode a message.
  if (run === '\ufe0f' && after === '\u20e3') return /[\d#*]/.test(before)
  if (run === '\ufe0e' || run === '\ufe0f') return emoji().test(before)
  if (OF_IDEOGRAPH.test(run)) return ideograph().test(before)
  if (OF_MONGOLIAN.test(run)) return mongolian().test(before)
  if (OF_HIEROGLYPH.test(run)) return hieroglyph().test(before)
  return before === '\u{1F3F4}' && FLAG.test(run)
}

/**
 * Removes what a person would not see but a model or terminal would: terminal commands, control characters, Unicode
 * tags, direction controls and zero-width characters. Keeps what scripts and emoji need: joiners, selectors, U+200E,
 * U+200F and U+061C in right-to-left text, and flags made of tags. A lone carriage return becomes a line break, a
 * lone surrogate becomes U+FFFD. Linear time.
 */
export function removeInvisible(text: string): string {
  if (!SUSPECT.test(text)) return text
  const lines = text
    .replaceAll(HALVES, '\ufffd')
    .replaceAll(COMMAND(), '')
    .replaceAll(/\r(?!\n)/g, '\n')
  return replaceUnseen(lines, () => '')
}

/** Writes the characters that `removeInvisible` removes as `\\u…` in JSON, so that the parsed value stays equal. */
export const escapeInvisible = (json: string): string =>
  SUSPECT.test(json) ? replaceUnseen(json, escapeCodeUnits) : json

/** Each UTF-16 unit as a JSON escape. */
export const escapeCodeUnits = (run: string): string =>
  run
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

function replaceUnseen(text: string, by: (run: string) => string): string {
  const isRtl = once(() => isRightToLeft(text))
  return text.replaceAll(RUN, (run, at: number) => {
    if (MARKS.test(run)) return isRtl() ? run : by(run)
    return isNeededJoiner(run, characterBefore(text, at), characterAt(text, at + run.length)) ? run : by(run)
  })
}

const characterAt = (text: string, at: number): string =>
  at < text.length ? String.fromCodePoint(text.codePointAt(at) as number) : ''

function characterBefore(text: string, at: number): string {
  const unit = text.charCodeAt(at - 1)
  return unit >= 0xdc00 && unit <= 0xdfff ? text.slice(Math.max(0, at - 2), at) : text.slice(Math.max(0, at - 1), at)
}
