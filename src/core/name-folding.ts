import { plainLetters } from './lookalike.ts'
import { once } from './once.ts'

/**
 * Normalizes a name so that case, separators, invisible characters, accents, full-width forms and look-alike letters
 * make no difference: `Delete Repo`, `delete/repo` and `delete_repo` all become `deleterepo`.
 */
export function foldName(name: string): string {
  const folded = lettersOf(name).replaceAll(NOT_WORD, '')
  // A name made only of symbols is compared as it is.
  return folded === '' ? name.toLowerCase() : folded
}

/** As `foldName`, but with `_` between words, for patterns such as `delete_*`. */
const foldWords = (name: string): string =>
  foldPiece(name.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2')).replaceAll(/^_+|_+$/g, '')

const foldPiece = (piece: string): string => lettersOf(piece).replaceAll(NOT_WORD_RUN, '_')

const NOT_WORD = /[^\p{L}\p{N}]/gu
const NOT_WORD_RUN = /[^\p{L}\p{N}]+/gu
// Unicode counts these as letters, but they are invisible.
const UNSEEN = /[\p{C}\u115f\u1160\u3164\uffa0]/gu

const lettersOf = (name: string): string => plainLetters(name.replaceAll(UNSEEN, ''))

/** All spellings of a tool's names, as rules compare them. Computed on first use, because most rules need only one form. */
export interface Spellings {
  readonly names: readonly string[]
  /** Results of `foldName`. */
  folded(): ReadonlySet<string>
  /** The folded names, with letters and digits that look alike replaced. */
  alike(): ReadonlySet<string>
  /** The names in the form that patterns with `*` match. */
  words(): readonly string[]
}

export function spellingsOf(names: readonly string[]): Spellings {
  const folded = once(() => new Set(names.map(foldName)))
  return {
    names,
    folded,
    alike: once(() => new Set([...folded()].map(foldAllLookalikes))),
    words: once(() => [...new Set(names.flatMap(wholeForms).flatMap(replaceLookalikes))]),
  }
}

/**
 * Creates a function that is true if one of these patterns matches a tool, however its name is spelled. For rules that
 * deny or limit: they may match more names than the pattern, never fewer.
 * @param patterns names, or names with `*` for any run of characters
 */
export function createFoldedMatcher(patterns: readonly string[]): (spelled: Spellings) => boolean {
  const exact = patterns.filter((pattern) => !pattern.includes('*')).map(foldName)
  const lookalikes = exact.map(foldAllLookalikes)
  const globs = patterns.filter((pattern) => pattern.includes('*')).flatMap(globsOf)
  return (spelled) =>
    exact.some((name) => spelled.folded().has(name)) ||
    lookalikes.some((name) => spelled.alike().has(name)) ||
    (globs.length > 0 && spelled.words().some((name) => globs.some((parts) => matchesGlob(parts, name))))
}

/** The separator between owner and tool: the dot or `__` in `github.find`, `github__find`. */
const SEPARATOR = /\.|__/g

/** Parses a pattern once for each of its separators, because any of them may follow the owner. The owner is kept literally. */
function globsOf(pattern: string): string[][] {
  const fold = (text: string): string => text.split('*').map(foldPiece).join('*')
  const owned = splitAtSeparators(pattern).map(([owner, rest]) => `${owner.toLowerCase()}.${fold(rest)}`)
  return (owned.length > 0 ? owned : [fold(pattern)]).flatMap(replaceLookalikes).map((one) => one.split('*'))
}

/** Treats letters and digits that look alike in most typefaces as equal. */
const foldLookalikes = (folded: string): string =>
  folded.replaceAll(/[1i|]/g, 'l').replaceAll('0', 'o').replaceAll('rn', 'm').replaceAll('vv', 'w')

/** Also replaces digits that look like letters. Only for whole names: as a pattern, `*_3` would match half of all names. */
const foldAllLookalikes = (folded: string): string =>
  foldLookalikes(folded).replaceAll(/[345789]/g, (digit) => READ_AS[digit] ?? digit)

const READ_AS: Readonly<Record<string, string>> = { 3: 'e', 4: 'a', 5: 's', 7: 't', 8: 'b', 9: 'g' }

/**
 * A form of a name or pattern with look-alikes replaced, with and without separators. Short patterns keep their
 * separators, because `set_*` would otherwise cover `settings` and `*_all` would cover `install`.
 */
function replaceLookalikes(form: string): string[] {
  const at = form.lastIndexOf('.') + 1
  const [owner, rest] = [form.slice(0, at), form.slice(at)]
  const joined = rest.replaceAll('_', '')
  const isShort = rest.includes('*') && joined.replaceAll('*', '').length < MIN_JOINED
  return [
    ...new Set([form, `${owner}${foldLookalikes(rest)}`, ...(isShort ? [] : [`${owner}${foldLookalikes(joined)}`])]),
  ]
}

const MIN_JOINED = 4

const wholeForms = (name: string): string[] => [
  foldWords(name),
  ...splitAtSeparators(name).map(([owner, rest]) => `${owner.toLowerCase()}.${foldWords(rest)}`),
]

const splitAtSeparators = (name: string): Array<readonly [string, string]> =>
  [...name.matchAll(SEPARATOR)].map(({ index, 0: separator }) => [
    name.slice(0, index),
    name.slice(index + separator.length),
  ])

/** True if the parts between the stars occur in order. Linear time for any pattern. */
export function matchesGlob(parts: readonly string[], name: string): boolean {
  const first = parts[0] ?? ''
  const last = parts[parts.length - 1] ?? ''
  if (!name.startsWith(first)) return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return name.length - last.length >= at && name.endsWith(last)
}
