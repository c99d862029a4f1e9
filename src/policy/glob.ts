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

/** The same for several patterns: true if any matches. */
export function compileGlobs(patterns: readonly string[], ignoreCase = false): Matcher {
  const fold = (text: string): string => (ignoreCase ? text.toLowerCase() : text)
  const variants = patterns.flatMap((pattern) => {
    if (pattern.length > MAX_LENGTH) throw new RangeError(`a pattern can have at most ${MAX_LENGTH} characters`)
    return alternatives(pattern.replace(/^(?:\.\/)+/, '')).map((one) =>
      one
        .split('/')
        .filter((name, at, all) => name !== '**' || all[at - 1] !== '**')
        .map((name) => segment(fold(name))),
    )
  })
  // Most patterns contain a literal name or prefix. A path without any of them needs no further matching.
  const hinted = variants.filter((segments) => hintOf(segments) !== undefined)
  const open = variants.filter((segments) => hintOf(segments) === undefined)
  const holdsHint = holdsAny(hinted.flatMap((segments) => hintOf(segments) ?? []))
  const anywhere = new Set(hinted.flatMap((segments) => nameAnywhere(segments) ?? []))
  const others = hinted.filter((segments) => nameAnywhere(segments) === undefined)
  return (path) => {
    const folded = fold(path)
    const some = holdsHint(folded)
    if (!some && open.length === 0) return false
    const names = folded.split('/')
    const fitsPath = (segments: readonly Segment[]): boolean => wild(segments, names, isSpan, fitsName)
    return (some && (names.some((name) => anywhere.has(name)) || others.some(fitsPath))) || open.some(fitsPath)
  }
}

/** A literal name, or its prefix, that a path must contain to match. */
interface Hint {
  readonly text: string
  readonly whole: boolean
}

function hintOf(segments: readonly Segment[]): Hint | undefined {
  const name = segments.find((one) => typeof one === 'string')
  if (name !== undefined) return { text: name, whole: true }
  const start = segments.flatMap((one) => (typeof one === 'object' && 'start' in one ? one.start : [])).find(Boolean)
  return start === undefined ? undefined : { text: start, whole: false }
}

/** True if a path contains one of these, in one pass. */
export function holdsAny(hints: readonly Hint[]): Matcher {
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

/** The name of a pattern that matches one literal name anywhere, with everything below it. */
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

function segment(text: string): Segment {
  if (text === '**') return { span: true }
  const found = tokens(text)
  const end = found.findIndex((token) => token.kind !== 'char')
  const start = found.slice(0, end < 0 ? undefined : end).map((token) => (token.kind === 'char' ? token.char : ''))
  return end < 0 ? start.join('') : { start: start.join(''), tokens: found }
}

const isSpan = (one: Segment): boolean => typeof one === 'object' && 'span' in one
const fitsName = (one: Segment, name: string): boolean =>
  typeof one === 'string'
    ? one === name
    : 'tokens' in one && name.startsWith(one.start) && wild(one.tokens, [...name], isStar, fits)

type Token =
  | { readonly kind: 'star' | 'any' }
  | { readonly kind: 'char'; readonly char: string }
  | { readonly kind: 'class'; readonly ranges: ReadonlyArray<readonly [string, string]>; readonly not: boolean }

const isStar = (token: Token): boolean => token.kind === 'star'

function fits(token: Token, char: string): boolean {
  if (token.kind === 'char') return token.char === char
  if (token.kind !== 'class') return true
  return token.ranges.some(([low, high]) => char >= low && char <= high) !== token.not
}

/** Matches with one kind of wildcard. A mismatch extends only the last one, so there is no exponential backtracking. */
function wild<P, I>(
  pattern: readonly P[],
  items: readonly I[],
  star: (part: P) => boolean,
  fitting: (part: P, item: I) => boolean,
): boolean {
  let [at, item, lastStar, mark] = [0, 0, -1, 0]
  while (item < items.length) {
    const part = pattern[at]
    if (part !== undefined && star(part)) {
      lastStar = at++
      mark = item
    } else if (part !== undefined && fitting(part, items[item] as I)) {
      at++
      item++
    } else if (lastStar >= 0) {
      at = lastStar + 1
      item = ++mark
    } else return false
  }
  while (at < pattern.length && star(pattern[at] as P)) at++
  return at === pattern.length
}

function tokens(segment: string): Token[] {
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
        found.push(classOf(chars.slice(i + 1, end)))
        i = end
      }
    }
  }
  return found
}

function classOf(chars: readonly string[]): Token {
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
function alternatives(pattern: string): string[] {
  const done: string[] = []
  const todo = [pattern]
  for (let one = todo.pop(); one !== undefined; one = todo.pop()) {
    const pair = braces(one)
    if (!pair) done.push(one)
    else
      for (const choice of one.slice(pair.from + 1, pair.to).split(','))
        todo.push(one.slice(0, pair.from) + choice + one.slice(pair.to + 1))
    if (done.length + todo.length > MAX_ALTERNATIVES)
      throw new RangeError(`a pattern can have at most ${MAX_ALTERNATIVES} alternatives`)
  }
  return done
}

/** The first innermost pair of braces that contains a comma. */
function braces(pattern: string): { readonly from: number; readonly to: number } | undefined {
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
