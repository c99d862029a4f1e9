/** A text that may hold a number that parsing would change: sixteen digits, or an exponent of three. */
export const MAY_CHANGE = /\d{16}|\d[eE]\+?\d{3}/

const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\d.eE+-])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\d.eE])/g

/**
 * The same JSON with numbers as texts that parsing would change: `9007199254740993`, which would become another id, and
 * `1e400`, which would become `null`.
 */
export const withExactNumbers = (json: string): string =>
  MAY_CHANGE.test(json) ? json.replaceAll(STRING_OR_NUMBER, exactNumber) : json

function exactNumber(found: string): string {
  if (found.startsWith('"') || (found.length < 16 && !/[eE]/.test(found))) return found
  const value = Number(found)
  const isKept = /^-?\d+$/.test(found) ? Number.isSafeInteger(value) : Number.isFinite(value)
  return isKept ? found : `"${found}"`
}
