export const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
/** A container with more keys and items than this counts as large. */
const LARGE = 1_000

/**
 * True if a JSON text certainly has more keys and items than `max`, without parsing it: parsing half a million
 * different keys takes half a second. Every key and item is preceded by a comma or an opening bracket, so there are
 * at most 2 × max + 1 of these.
 */
export function exceedsJsonItems(text: string, max: number): boolean {
  let left = 2 * max + 1
  if (text.length <= left) return false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
      if (at < 0) return false
    } else if ((code === COMMA || isOpening(code)) && left-- === 0) return true
  }
  return false
}

/** A JSON text with `{}` for large second-level members, and its nesting depth. Undefined if it is not JSON. */
export function withoutLargeMembers(text: string): { readonly text: string; readonly depth: number } | undefined {
  let shortened = ''
  let from = 0
  let depth = 0
  let start = 0
  let count = 0
  let maxDepth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
      if (at < 0) return undefined
    } else if (code === COMMA) count++
    else if (isOpening(code)) {
      count++
      maxDepth = Math.max(maxDepth, ++depth)
      if (depth !== 3) continue
      start = at
      count = 0
    } else if (isClosing(code)) {
      if (depth-- !== 3 || count < LARGE) continue
      shortened += `${text.slice(from, start)}{}`
      from = at + 1
    }
  }
  return depth === 0 ? { text: shortened + text.slice(from), depth: maxDepth } : undefined
}

export const isOpening = (code: number): boolean => code === 0x7b || code === 0x5b

export const isClosing = (code: number): boolean => code === 0x7d || code === 0x5d

/** @param from the opening quote @returns the closing quote, or -1 if there is none */
export function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at > 0; at = text.indexOf('"', at + 1)) {
    let before = at - 1
    while (text.charCodeAt(before) === BACKSLASH) before--
    if ((at - before) % 2 === 1) return at
  }
  return -1
}
