const PLAIN = /^[\x20-\x7e]*$/
/** Characters that terminals show over the one before, or not at all. */
const ZERO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}]/gu
/** Characters that take two columns: the East Asian Widths W and F of Unicode. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{1b2ff}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}]|(?!\p{Regional_Indicator})\p{Emoji_Presentation}/gu

const count = (text: string, kind: RegExp): number => text.match(kind)?.length ?? 0

/** Number of columns that a text takes on a terminal. */
export const widthOf = (text: string): number =>
  PLAIN.test(text) ? text.length : [...text].length - count(text, ZERO_WIDTH) + count(text, WIDE)

export const padToWidth = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - widthOf(text)))

/** The beginning of a text that fits `width` columns, with an ellipsis if it was cut. */
export function shortenToWidth(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let start = ''
  let left = width - 1
  for (const char of text) {
    left -= widthOf(char)
    if (left < 0) break
    start += char
  }
  return `${start.trimEnd()}…`
}

/**
 * Joins words to lines of at most `width` columns. A longer word, such as an address to copy, keeps its own line.
 * @param indent spaces before each line but the first
 */
export function wrapWords(words: readonly string[], width: number, indent = 0): string[] {
  const lines: string[] = []
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`
    if (lines.length > 0 && widthOf(longer) <= width) lines[lines.length - 1] = longer
    else lines.push(lines.length > 0 ? ' '.repeat(indent) + word : word)
  }
  return lines
}
