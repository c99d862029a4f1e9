/** Telegram counts UTF-16 units. */
const MAX_TEXT = 4096

// Created on first use, which takes ten milliseconds.
let segmenter: Intl.Segmenter | undefined

/**
 * Splits a text into pieces that Telegram accepts: at the end of a paragraph, line or word within the last quarter,
 * never inside a composed character.
 */
export function splitText(text: string, maxLength = MAX_TEXT): string[] {
  const pieces: string[] = []
  let remaining = text
  while (remaining.length > maxLength) {
    const end = findPieceEnd(remaining, maxLength)
    pieces.push(remaining.slice(0, end).trimEnd())
    remaining = remaining.slice(end).trimStart()
  }
  return [...pieces, remaining].filter((piece) => piece !== '')
}

function findPieceEnd(text: string, maxLength: number): number {
  const head = text.slice(0, maxLength)
  for (const separator of ['\n\n', '\n', ' ']) {
    const at = head.lastIndexOf(separator)
    if (at >= maxLength * 0.75) return at + separator.length
  }
  // Includes the following character, because a cut inside a composed character is not visible in the piece alone.
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  const characterStart = segmenter.segment(text.slice(0, maxLength + 64)).containing(maxLength)?.index ?? maxLength
  return characterStart > 0 ? characterStart : maxLength
}
