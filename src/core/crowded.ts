const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
/** As short as a member can be: `"":0,`. */
const MEMBER_CHARS = 5
/** So many keys in one place are a crowd, in a text that is crowded. */
const CROWD = 1_000

/** Whether a JSON text holds more keys than this, without parsing it: half a million different ones take half a second to parse. */
export function isCrowded(text: string, maxKeys: number): boolean {
  if (text.length <= maxKeys * MEMBER_CHARS) return false
  let left = maxKeys
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
      if (at < 0) return false
    } else if (code === COLON && left-- === 0) return true
  }
  return false
}

/**
 * A JSON text whose members' members are `{}` where they hold many keys: what a crowded message is, without its crowd; and how
 * many arrays and objects were in each other in it. Undefined where the text is no JSON.
 */
export function withoutCrowds(text: string): { readonly text: string; readonly depth: number } | undefined {
  let kept = ''
  let from = 0
  let deep = 0
  let start = 0
  let keys = 0
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
      if (at < 0) return undefined
    } else if (code === COLON) keys++
    else if (code === 0x7b || code === 0x5b) {
      depth = Math.max(depth, ++deep)
      if (deep !== 3) continue
      start = at
      keys = 0
    } else if (code === 0x7d || code === 0x5d) {
      if (deep-- !== 3 || keys < CROWD) continue
      kept += `${text.slice(from, start)}{}`
      from = at + 1
    }
  }
  return deep === 0 ? { text: kept + text.slice(from), depth } : undefined
}

/** @param from its first quote @returns its last one, or -1 where there is none */
export function endOfString(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at > 0; at = text.indexOf('"', at + 1)) {
    let before = at - 1
    while (text.charCodeAt(before) === BACKSLASH) before--
    if ((at - before) % 2 === 1) return at
  }
  return -1
}
