import { endOfString, QUOTE } from './json-item-count.ts'

/** True if the text may contain a number that parsing would change: sixteen digits, or a three-digit exponent. */
export const MAY_CHANGE = /\d{16}|\d[eE]\+?\d{3}/

const NUMBER = /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/**
 * Writes numbers that parsing would change as strings: `9007199254740993`, which would become another id, and
 * `1e400`, which would become `null`. Linear time for any text.
 */
export function withExactNumbers(json: string): string {
  if (!MAY_CHANGE.test(json)) return json
  let exact = ''
  let copied = 0
  for (let at = 0; at < json.length; ) {
    const code = json.charCodeAt(at)
    if (code === QUOTE) {
      const end = endOfString(json, at)
      if (end < 0) break
      at = end + 1
    } else if (isNumberCharacter(code)) {
      let end = at + 1
      while (end < json.length && isNumberCharacter(json.charCodeAt(end))) end++
      const found = json.slice(at, end)
      if (changesWhenParsed(found)) {
        exact += `${json.slice(copied, at)}"${found}"`
        copied = end
      }
      at = end
    } else at++
  }
  return exact + json.slice(copied)
}

/** Digits and `+-.eE`. */
const isNumberCharacter = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || code === 0x2b || code === 0x2d || code === 0x2e || (code | 0x20) === 0x65

function changesWhenParsed(found: string): boolean {
  if ((found.length < 16 && !/[eE]/.test(found)) || !NUMBER.test(found)) return false
  const value = Number(found)
  return /^-?\d+$/.test(found) ? !Number.isSafeInteger(value) : !Number.isFinite(value)
}
