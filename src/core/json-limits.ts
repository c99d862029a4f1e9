import { endOfString, isClosing, isOpening, QUOTE } from './json-item-count.ts'

const COLON = 0x3a
/** Shorter texts are always cheap to parse. */
const SMALL = 64 * 1024
export const MAX_KEYS = 200_000
/** Containers nested deeper than this count as deep. */
const DEEP = 1_000
const MAX_DEEP = 200_000

/** Why a JSON text must not be parsed: deep nesting and many different keys take seconds and hundreds of MiB. */
export function jsonLimitExceeded(text: string): string | undefined {
  if (text.length < SMALL) return undefined
  let depth = 0
  let deep = 0
  let keys = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
      if (at < 0) return undefined
    } else if (code === COLON) {
      if (++keys > MAX_KEYS) return `has more than ${MAX_KEYS} keys`
    } else if (isOpening(code)) {
      if (++depth > DEEP && ++deep > MAX_DEEP) return `has more than ${MAX_DEEP} parts that are more than ${DEEP} deep`
    } else if (isClosing(code)) depth--
  }
  return undefined
}
