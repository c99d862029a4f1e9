/** True if the pattern matches the whole path, which uses `/`. */
export type Matcher = (path: string) => boolean

const MAX_LENGTH = 1024
const MAX_ALTERNATIVES = 64

/**
 * Compiles a file pattern: `*` and `?` match within a name, `**` matches any number of folders, `[a-z]` and `[!x]`
 * one character, `{a,b}` either alternative, `\` escapes the next character. Names with a leading dot are not
 * special. Time is bounded by pattern length times path length for any pattern.
 * @throws RangeError for a pattern that is too long or has too many alternatives
 */
export const compileGlob = (pattern: string, ignoreCase = false): Matcher => compileGlobs([pattern], ignoreCase)

/** As `compileGlob`, for several patterns: true if any of them matches. */
export function compileGlobs(patterns: readonly string[], ignoreCase = false): Matcher {
  const fold = (text: string): string => (ignoreCase ? text.toLowerCase() : text)
  const variants = patterns.flatMap((pattern) => {
    if (pattern.length > MAX_LENGTH) throw new RangeError(`a pattern can have at most ${MAX_LENGTH} characters`)
    return expandAlternatives(pattern.replace(/^(?:\.\/)+/, '')).map((one) =>
      one
        .split('/')
        .filter((name, at, all) => name !== '**' || all[at - 1] !== '**')
        .map((name) => parseSegment(fold(name))),
    )
  })
  // Most patterns contain a literal name or prefix. A path without any of them needs no further matching.
  const withHint = variants.filter((segments) => hintOf(segments) !== undefined)
  const withoutHint = variants.filter((segments) => hintOf(segments) === undefined)
  const containsHint = containsAny(withHint.flatMap((segments) => hintOf(segments) ?? []))
  const anywhere = new Set(withHint.flatMap((segments) => nameAnywhere(segments) ?? []))
  const others = withHint.filter((segments) => nameAnywhere(segments) === undefined)
  return (path) => {
    const folded = fold(path)
    const hasHint = containsHint(folded)
    if (!hasHint && withoutHint.length === 0) return false
    const names = folded.split('/')
    const matchesPath = (segments: readonly Segment[]): boolean => matchWildcards(segments, names, isSpan, matchesName)
    return (
      (hasHint && (names.some((name) => anywhere.has(name)) || others.some(matchesPath))) ||
      withoutHint.some(matchesPath)
    )
  }
}

/** A literal name, or its prefix, that a path must contain to match. */
interface Hint {
  readonly text: string
  readonly whole: boolean
}

function hintOf(segments: readonly Segment[]): Hint | undefined {
  const name = segments.find((segment) => typeof segment === 'string')
  if (name !== undefined) return { text: name, whole: true }
  const start = segments
    .flatMap((segment) => (typeof segment === 'object' && 'start' in segment ? segment.start : []))
    .find(Boolean)
  return start === undefined ? undefined : { text: start, whole: false }
}

/** True if a path contains one of these, in one pass. */
export function containsAny(hints: readonly Hint[]): Matcher {
  const sourceOf = (whole: boolean): string =>
    [...new Set(hints.filter((hint) => hint.whole === whole).map(({ text }) => text))]
      .map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'))
      .join('|')
  const [names, starts] = [sourceOf(true), sourceOf(false)]
  const either = [names && `(?:${names})(?:/|$)`, starts].filter(Boolean).join('|')
  if (either === '') return () => false
  const expression = new RegExp(`(?:^|/)(?:${either})`)
  return (path) => expression.test(path)
}

/** The literal name of a pattern that has only this name between two `**`; undefined for other patterns. */
function nameAnywhere([first, name, last, ...more]: readonly Segment[]): string | undefined {
  const spans = first !== undefined && isSpan(first) && last !== undefined && isSpan(last)
  return spans && typeof name === 'string' && more.length === 0 ? name : undefined
}

/** `**`, a literal name, or a name with wildcards. */
type Segment = { readonly span: true } | string | WildcardName

interface WildcardName {
  /** The literal characters it begins with. */
  readonly start: string
  readonly tokens: readonly Token[]
}

function parseSegment(text: string): Segment {
  if (text === '**') return { span: true }
  const found = parseTokens(text)
  const end = found.findIndex((token) => token.kind !== 'char')
  const start = found.slice(0, end < 0 ? undefined : end).map((token) => (token.kind === 'char' ? token.char : ''))
  return end < 0 ? start.join('') : { start: start.join(''), tokens: found }
}

const isSpan = (segment: Segment): boolean => typeof segment === 'object' && 'span' in segment
const matchesName = (segment: Segment, name: string): boolean =>
  typeof segment === 'string'
    ? segment === name
    : 'tokens' in segment &&
      name.startsWith(segment.start) &&
      matchWildcards(segment.tokens, [...name], isStar, matchesToken)

type Token =
  | { readonly kind: 'star' | 'any' }
  | { readonly kind: 'char'; readonly char: string }
  | { readonly kind: 'class'; readonly ranges: ReadonlyArray<readonly [string, string]>; readonly not: boolean }

const isStar = (token: Token): boolean => token.kind === 'star'

function matchesToken(token: Token, char: string): boolean {
  if (token.kind === 'char') return token.char === char
  if (token.kind !== 'class') return true
  return token.ranges.some(([low, high]) => char >= low && char <= high) !== token.not
}

/** Matches with one kind of wildcard. A mismatch extends only the last one, so there is no exponential backtracking. */
function matchWildcards<P, I>(
  pattern: readonly P[],
  items: readonly I[],
  isWildcard: (part: P) => boolean,
  matchesItem: (part: P, item: I) => boolean,
): boolean {
  let [at, item, lastStar, markedItem] = [0, 0, -1, 0]
  while (item < items.length) {
    const part = pattern[at]
    if (part !== undefined && isWildcard(part)) {
      lastStar = at++
      markedItem = item
    } else if (part !== undefined && matchesItem(part, items[item] as I)) {
      at++
      item++
    } else if (lastStar >= 0) {
      at = lastStar + 1
      item = ++markedItem
    } else return false
  }
  while (at < pattern.length && isWildcard(pattern[at] as P)) at++
  return at === pattern.length
}

function parseTokens(segment: string): Token[] {
  const found: Token[] = []
  const chars = [...segment]
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i] as string
    if (char === '*') {
      if (found[found.length - 1]?.kind !== 'star') found.push({ kind: 'star' })
    } else if (char === '?') found.push({ kind: 'any' })
    else if (char === '\\' && i + 1 < chars.length) found.push({ kind: 'char', char: chars[++i] as string })
    else {
      const end = char === '[' ? chars.indexOf(']', i + 2) : -1
      if (end < 0) found.push({ kind: 'char', char })
      else {
        found.push(parseClass(chars.slice(i + 1, end)))
        i = end
      }
    }
  }
  return found
}

function parseClass(chars: readonly string[]): Token {
  const not = chars[0] === '!' || chars[0] === '^'
  const rest = not ? chars.slice(1) : chars
  const ranges: Array<readonly [string, string]> = []
  for (let i = 0; i < rest.length; i++) {
    const low = rest[i] as string
    const high = rest[i + 1] === '-' ? rest[i + 2] : undefined
    ranges.push([low, high ?? low])
    if (high !== undefined) i += 2
  }
  return { kind: 'class', ranges, not }
}

/** Expands `{a,b}`, including nested ones. */
function expandAlternatives(pattern: string): string[] {
  const expanded: string[] = []
  const pending = [pattern]
  for (let one = pending.pop(); one !== undefined; one = pending.pop()) {
    const pair = findBraces(one)
    if (!pair) expanded.push(one)
    else
      for (const choice of one.slice(pair.from + 1, pair.to).split(','))
        pending.push(one.slice(0, pair.from) + choice + one.slice(pair.to + 1))
    if (expanded.length + pending.length > MAX_ALTERNATIVES)
      throw new RangeError(`a pattern can have at most ${MAX_ALTERNATIVES} alternatives`)
  }
  return expanded
}

/** The first innermost pair of braces that contains a comma. */
function findBraces(pattern: string): { readonly from: number; readonly to: number } | undefined {
  const open: Array<{ readonly from: number; comma: boolean }> = []
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at]
    const inner = open[open.length - 1]
    if (char === '\\') at++
    else if (char === '{') open.push({ from: at, comma: false })
    else if (char === ',' && inner) inner.comma = true
    else if (char === '}' && open.pop()?.comma) return { from: inner?.from ?? 0, to: at }
  }
  return undefined
}
