/** Telegram counts UTF-16 units. */
export const MAX_TEXT = 4096

// Made when a text is first too long: it takes ten milliseconds.
let segments: Intl.Segmenter | undefined

/**
 * A text in pieces that Telegram takes, in order: at the end of a paragraph, a line or a word where one is in the last quarter,
 * never inside a character that is made of several.
 */
export function split(text: string, most = MAX_TEXT): string[] {
  const pieces: string[] = []
  let rest = text
  while (rest.length > most) {
    const end = endOf(rest, most)
    pieces.push(rest.slice(0, end).trimEnd())
    rest = rest.slice(end).trimStart()
  }
  return [...pieces, rest].filter((piece) => piece !== '')
}

function endOf(text: string, most: number): number {
  const head = text.slice(0, most)
  for (const mark of ['\n\n', '\n', ' ']) {
    const at = head.lastIndexOf(mark)
    if (at >= most * 0.75) return at + mark.length
  }
  // Looked at with what follows: a piece that ends in half a character does not show it.
  segments ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  const before = segments.segment(text.slice(0, most + 64)).containing(most)?.index ?? most
  return before > 0 ? before : most
}
