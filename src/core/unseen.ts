import { once } from './once.ts'

const ESC = '\u001b'
const BEL = '\u0007'

// Controls but for line ends and tabs, controls of direction, joiners, fillers and selectors; then tags, the rest of the
// selectors and what Unicode keeps for more of them, and the controls of shorthand, hieroglyphs and music.
const UNSEEN =
  '[\\0-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb]|[\\udb40-\\udb43][\\udc00-\\udfff]|\\ud82f[\\udca0-\\udca3]|\\ud80d[\\udc30-\\udc3f]|\\ud834[\\udd73-\\udd7a]'
// Half of a surrogate pair: with what stands between two of them gone, they would be one character.
const HALF = '[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]'
// Run on every text that passes: without the flag `u` it is several times as fast.
const SUSPECT = new RegExp(`${UNSEEN}|\\r(?!\\n)|${HALF}`)
const HALVES = new RegExp(HALF, 'g')
const RUN = new RegExp(`(?:${UNSEEN})+`, 'g')

// Commands to a terminal, with all they say: operating system commands (OSC 8, OSC 52), control sequences, and the
// two-character rest; each also with the one character of C1 that begins it.
const COMMAND = once(
  () =>
    new RegExp(
      `(?:${ESC}\\]|\\u009d)[^${BEL}${ESC}\\u009c\\u009d]*(?:${BEL}|${ESC}\\\\|\\u009c)|(?:${ESC}\\[|\\u009b)[0-?]*[ -/]*[@-~]|${ESC}[ -/]*[0-~]`,
      'g',
    ),
)

const rightToLeft = once(() => /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u)
// Scripts whose letters join or must not: Persian and Arabic, the scripts of India and around, Mongolian.
const joining = once(
  () =>
    /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}\p{M}]/u,
)
// Scripts written without spaces, where U+200B says that a line may break.
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

/** Whether a text, or a part of JSON, holds anything that `withoutUnseen` may take out. */
export const mayBeUnseen = (text: string): boolean => SUSPECT.test(text)

export const isRightToLeft = (text: string): boolean => rightToLeft().test(text)

/** Whether a joiner, a selector or a break between words is where a script or an emoji needs it. */
export function isNeeded(run: string, before: string, after: string): boolean {
  if (run === '\u200d') return joining().test(before) || (picture().test(before) && picture().test(after))
  if (run === '\u200c') return joining().test(before)
  if (run === '\u200b') return spaceless().test(before) || spaceless().test(after)
  // ❤️‍🔥 has a selector and a joiner in a row.
  if (run === '\ufe0f\u200d') return picture().test(after)
  // 1️⃣ is three characters. A selector after any other digit could spell a message.
  if (run === '\ufe0f' && after === '\u20e3') return /[\d#*]/.test(before)
  if (run === '\ufe0e' || run === '\ufe0f') return emoji().test(before)
  if (OF_IDEOGRAPH.test(run)) return ideograph().test(before)
  if (OF_MONGOLIAN.test(run)) return mongolian().test(before)
  if (OF_HIEROGLYPH.test(run)) return hieroglyph().test(before)
  return before === '\u{1F3F4}' && FLAG.test(run)
}

/**
 * The same text without what a person reading it would not see and a model or a terminal would: terminal commands, control
 * characters, Unicode tags, controls of direction and characters without width. What a script or an emoji needs stays:
 * joiners, selectors, the marks U+200E, U+200F and U+061C in text with right-to-left letters, and the flags made of tags.
 * A carriage return alone becomes a line end, and half of a surrogate pair becomes U+FFFD. Takes time in proportion to the length.
 */
export function withoutUnseen(text: string): string {
  if (!SUSPECT.test(text)) return text
  const lines = text
    .replaceAll(HALVES, '\ufffd')
    .replaceAll(COMMAND(), '')
    .replaceAll(/\r(?!\n)/g, '\n')
  const isRtl = once(() => isRightToLeft(lines))
  return lines.replaceAll(RUN, (run, at: number) => {
    if (MARKS.test(run)) return isRtl() ? run : ''
    return isNeeded(run, characterBefore(lines, at), characterAt(lines, at + run.length)) ? run : ''
  })
}

const characterAt = (text: string, at: number): string =>
  at < text.length ? String.fromCodePoint(text.codePointAt(at) as number) : ''

function characterBefore(text: string, at: number): string {
  const unit = text.charCodeAt(at - 1)
  return unit >= 0xdc00 && unit <= 0xdfff ? text.slice(Math.max(0, at - 2), at) : text.slice(Math.max(0, at - 1), at)
}
