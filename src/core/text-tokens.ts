const [LOWER, UPPER, DIGIT, SPACE, MARK, OTHER] = [1, 2, 3, 4, 5, 6] as const

const KINDS = new Uint8Array(0x10000).fill(OTHER)
KINDS.fill(MARK, 0x20, 0x7f)
KINDS.fill(LOWER, 0x61, 0x7b)
KINDS.fill(UPPER, 0x41, 0x5b)
KINDS.fill(DIGIT, 0x30, 0x3a)
KINDS.fill(SPACE, 0x09, 0x0e)
KINDS[0x20] = SPACE

/** Costs are whole numbers, in parts of a token. */
const TOKEN = 20
/** A pair of letters that is rare in words. */
const RARE = 16
/** Longer runs of letters are measured in parts, so that no text takes quadratic time. */
const MAX_WORD = 64
const NO_LIMIT = Number.POSITIVE_INFINITY

/** Costs of one UTF-16 unit outside ASCII. */
const COSTS = new Uint8Array(0x10000).fill(TOKEN)
for (const [from, cost] of [
  [0x250, 8], // Greek, Cyrillic, Hebrew
  [0x600, 9], // Arabic, Indic
  [0xd80, 12], // Sinhala
  [0xe00, 10], // Thai
  [0xe80, 40], // Lao, Tibetan
  [0x1000, 12], // Burmese, Georgian
  [0x1200, 40], // Ethiopic
  [0x1400, 10],
  [0x1780, 15], // Khmer
  [0x1800, 10],
  [0x2100, 40], // symbols
  [0x2e80, 15], // kana
  [0x3400, 50], // rare ideographs
  [0x4e00, 18],
  [0xa000, 15], // Hangul
  [0xd800, 40],
  [0xd83c, 24], // emoji
  [0xd83f, 40],
  [0xdc00, 24],
  [0xe000, 60], // private use
  [0xf900, 26],
] as const)
  COSTS.fill(cost, from)

/** For each letter, the letters that often follow it in words of o200k, as bits, and itself. Random identifiers have others. */
const PAIRS = [
  0x3febfef, 0x1164913, 0x11e4d95, 0x1164919, 0x3ffffff, 0x1a4931, 0x11e69d1, 0x11a6991, 0x2bfffff, 0x104711, 0x1e6d11,
  0x13c5d79, 0x114d113, 0x33c6ffd, 0x1feffff, 0x1ec991, 0x110000, 0x13efd7f, 0x15cdd95, 0x35e5995, 0x3ebd7f, 0x204111,
  0x446191, 0x888114, 0x104f911, 0x2104111,
]
/** The pairs of letters that rarely follow each other. */
function countRarePairs(text: string, from: number, end: number): number {
  let rare = 0
  // The last five bits of a letter are its place in the alphabet.
  for (let at = from + 1; at < end; at++)
    if (!(((PAIRS[(text.charCodeAt(at - 1) & 31) - 1] as number) >> ((text.charCodeAt(at) & 31) - 1)) & 1)) rare++
  return rare
}

/** Position after the characters of one kind, from `at` to `max` at most. */
function skipKind(text: string, kind: number, at: number, max: number): number {
  let end = at
  while (end < max && KINDS[text.charCodeAt(end)] === kind) end++
  return end
}

/** Position after the piece that begins at `at`: a word, up to three digits or marks, white space, or one other character. */
function endOfPiece(text: string, at: number): number {
  const kind = KINDS[text.charCodeAt(at)] as number
  const length = text.length
  switch (kind) {
    case UPPER:
    case LOWER: {
      const max = Math.min(at + MAX_WORD, length)
      return skipKind(text, LOWER, skipKind(text, UPPER, at, max), max)
    }
    case DIGIT:
    case MARK:
      return skipKind(text, kind, at, Math.min(at + 3, length))
    case SPACE:
      return skipKind(text, SPACE, at, length)
    default:
      return at + 1
  }
}

/** @param isMidWord true if a letter or a digit comes before the piece */
function costOfPiece(text: string, at: number, end: number, isMidWord: boolean): number {
  const code = text.charCodeAt(at)
  switch (KINDS[code]) {
    case UPPER:
    case LOWER:
      return costOfWord(text, at, end, isMidWord) + RARE * countRarePairs(text, at, end)
    case DIGIT:
      return TOKEN
    case MARK:
      return end === at + 1 ? 16 : 22
    case SPACE:
      return costOfSpace(text, at, end)
    default:
      return COSTS[code] as number
  }
}

function costOfWord(text: string, at: number, end: number, isMidWord: boolean): number {
  const letters = end - at
  const upper = skipKind(text, UPPER, at, end) - at
  if (upper > 1 && upper < letters) return 20 + 9 * upper
  if (upper > 1) return isMidWord ? 10 * upper : 17 + 3 * upper
  if (letters > 7) return TOKEN + 4 * (letters - 7)
  return isMidWord ? 29 : TOKEN
}

function costOfSpace(text: string, at: number, end: number): number {
  const spaces = end - at
  // A single space belongs to the word that follows.
  if (spaces === 1 && text.charCodeAt(at) === 0x20) return KINDS[text.charCodeAt(end)] === DIGIT ? TOKEN : 0
  // An indent after a line break costs another token.
  return (spaces > 2 ? 2 * TOKEN : TOKEN) + (spaces >> 2)
}

/**
 * Position after the last piece of `text` that fits into `tokens`, and the tokens up to there. It follows how o200k splits
 * text: words, three digits, marks. At most 6 % too low for tables, logs, code, JSON, numbers, base64 and identifiers, 23 % for
 * text in any script, and up to 50 % too high (Chinese, repeated words).
 */
function measureText(
  text: string,
  tokens: number = NO_LIMIT,
  from = 0,
): { readonly end: number; readonly tokens: number } {
  const maxCost = tokens * TOKEN
  let cost = 0
  let at = from
  let isMidWord = false
  while (at < text.length) {
    const end = endOfPiece(text, at)
    const pieceCost = costOfPiece(text, at, end, isMidWord)
    if (cost + pieceCost > maxCost) break
    cost += pieceCost
    isMidWord = (KINDS[text.charCodeAt(at)] as number) <= DIGIT
    at = end
  }
  return { end: at, tokens: cost / TOKEN }
}

export const tokensOfText = (text: string): number => Math.ceil(measureText(text).tokens)

/** Characters of a long text that are measured. The rest is assumed to be similar. */
const MEASURED = 200_000

/** Estimated tokens of a text of any length, which may be a fraction. */
export function estimateLongText(text: string): number {
  const measuredChars = Math.min(text.length, MEASURED)
  return measuredChars === 0 ? 0 : (measureText(text.slice(0, measuredChars)).tokens * text.length) / measuredChars
}

/** Real texts have at most this many times the estimate of `measureText`. Limits multiply it, so that they hold. */
const MARGIN = 1.25

export const maxTokensOf = (text: string): number => Math.ceil(measureText(text).tokens * MARGIN)

/** True if a text may have more than `tokens`. Stops reading where that is certain. */
export const isLongerThan = (text: string, tokens: number): boolean =>
  // A character costs less than four tokens, so a shorter text need not be measured.
  text.length > tokens / 4 / MARGIN && measureText(text, tokens / MARGIN).end < text.length

/** Maximum characters to cut off if not even one word fits, and to search for a space or comma before the end. */
const LONG = 400

/**
 * Where to cut a text so that it surely has at most `tokens`, counted from `from`: after a line, else after a space or a comma,
 * else between two characters. Always after `from`.
 */
export function cutText(text: string, tokens: number, from = 0): number {
  const { end } = measureText(text, tokens / MARGIN, from)
  if (end >= text.length) return text.length
  if (end <= from) return from + Math.max(1, Math.min(LONG, Math.floor(tokens)))
  const line = text.lastIndexOf('\n', end - 1) + 1
  // A line that would leave most of the room empty is cut itself.
  if (line > from + (end - from) / 2) return line
  for (let at = end; at > end - LONG && at > from + 1; at--) if (/[\s,;>]/.test(text[at - 1] as string)) return at
  const isInPair = (text.charCodeAt(end) & 0xfc00) === 0xdc00
  return isInPair && end - 1 > from ? end - 1 : end
}
