/** Telegram counts UTF-16 units. */
const MAX_TEXT = 4096

// Created on first use, which takes ten milliseconds.
let segments: Intl.Segmenter | undefined

/**
 * Splits a text into pieces that Telegram accepts: at the end of a paragraph, line or word within the last quarter,
 * never inside a composed character.
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
  // Includes the following character, because a cut inside a composed character is not visible in the piece alone.
  segments ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  const before = segments.segment(text.slice(0, most + 64)).containing(most)?.index ?? most
  return before > 0 ? before : most
}
