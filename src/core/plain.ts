const ESC = String.fromCharCode(0x1b)
const BEL = String.fromCharCode(0x07)

// Operating system commands with their end, control sequences, and the two-character rest.
const ANSI = new RegExp(`${ESC}(?:\\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)|\\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])`, 'g')
// Lines and tabs are text. So are the joiners U+200C and U+200D, which scripts and emoji need; format characters that
// turn text around or cannot be seen at all are not.
const UNSEEN = /(?![\n\t])\p{Cc}|[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]|[\u{E0000}-\u{E007F}]/gu

/**
 * What a server wrote for people and models, without what neither can see: terminal escapes, control characters,
 * bidirectional controls and Unicode tags.
 */
export const plain = (text: string): string =>
  PLAIN.test(text) ? text : text.replaceAll(ANSI, '').replaceAll(UNSEEN, '')

/** Nearly every text, which is told at a tenth of the cost. */
const PLAIN = /^[\x20-\x7e\n\t]*$/
