const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
/** So many keys and items in one place are a crowd, in a text that is crowded. */
const CROWD = 1_000

/**
 * Whether a JSON text surely holds more keys and items than this, without parsing it: half a million different keys take half a
 * second to parse. Before each but the first of an array or object is a comma, and each array or object but one is an item or
 * the value of a key itself: of commas and brackets together there are no more than twice as many, and one.
 */
export function isCrowded(text: string, max: number): boolean {
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

/**
 * A JSON text whose members' members are `{}` where they hold many keys and items: what a crowded message is, without its crowd; and how
 * many arrays and objects were in each other in it. Undefined where the text is no JSON.
 */
export function withoutCrowds(text: string): { readonly text: string; readonly depth: number } | undefined {
  let kept = ''
  let from = 0
  let deep = 0
  let start = 0
  let count = 0
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
      if (at < 0) return undefined
    } else if (code === COMMA) count++
    else if (isOpening(code)) {
      count++
      depth = Math.max(depth, ++deep)
      if (deep !== 3) continue
      start = at
      count = 0
    } else if (code === 0x7d || code === 0x5d) {
      if (deep-- !== 3 || count < CROWD) continue
      kept += `${text.slice(from, start)}{}`
      from = at + 1
    }
  }
  return deep === 0 ? { text: kept + text.slice(from), depth } : undefined
}

const isOpening = (code: number): boolean => code === 0x7b || code === 0x5b

/** @param from its first quote @returns its last one, or -1 where there is none */
export function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at > 0; at = text.indexOf('"', at + 1)) {
    let before = at - 1
    while (text.charCodeAt(before) === BACKSLASH) before--
    if ((at - before) % 2 === 1) return at
  }
  return -1
}
