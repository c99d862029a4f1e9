import { once } from './once.ts'

const ESC = String.fromCharCode(0x1b)
const BEL = String.fromCharCode(0x07)

// Operating system commands with their end, control sequences, and the two-character rest.
const ansi = once(
  () => new RegExp(`${ESC}(?:\\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)|\\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])`, 'g'),
)
// Lines and tabs are text. So are the joiners U+200C and U+200D, which scripts and emoji need; format characters that
// turn text around or cannot be seen at all are not.
const unseen = once(() => /(?![\n\t])\p{Cc}|[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]|[\u{E0000}-\u{E007F}]/gu)

/**
 * What a server wrote for people and models, without what neither can see: terminal escapes, control characters,
 * bidirectional controls and Unicode tags.
 */
export const plain = (text: string): string =>
  PLAIN.test(text) ? text : text.replaceAll(ansi(), '').replaceAll(unseen(), '')

/** JSON with the same characters written as `\\u…`: whoever parses it misses nothing, and no terminal obeys it. */
export const plainJson = (json: string): string =>
  PLAIN.test(json)
    ? json
    : json.replaceAll(unseen(), (character) =>
        character
          .split('')
          .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
          .join(''),
      )

/** Nearly every text, which is told at a tenth of the cost. */
const PLAIN = /^[\x20-\x7e\n\t]*$/
