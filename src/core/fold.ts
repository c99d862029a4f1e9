import { plainLetters } from './lookalike.ts'
import { once } from './once.ts'

/**
 * What is left of a name when case, separators, unseen characters, accents, full-width forms and letters of other scripts
 * that look the same make no difference: `Delete Repo`, `delete/repo` and `delete_repo` are all `deleterepo`.
 */
export function foldName(name: string): string {
  const folded = lettersOf(name).replaceAll(NOT_WORD, '')
  // A name of symbols alone is compared as it is.
  return folded === '' ? name.toLowerCase() : folded
}

/** The same with its words kept apart by `_`, for patterns such as `delete_*`. */
const foldWords = (name: string): string =>
  foldPiece(name.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2')).replaceAll(/^_+|_+$/g, '')

const foldPiece = (piece: string): string => lettersOf(piece).replaceAll(NOT_WORD_RUN, '_')

const NOT_WORD = /[^\p{L}\p{N}]/gu
const NOT_WORD_RUN = /[^\p{L}\p{N}]+/gu
// These count as letters and nobody sees them.
const UNSEEN = /[\p{C}\u115f\u1160\u3164\uffa0]/gu

const lettersOf = (name: string): string => plainLetters(name.replaceAll(UNSEEN, ''))

/** All that a tool is called, as rules compare it. */
export interface Spellings {
  readonly names: readonly string[]
  /** Each as `foldName` leaves it. */
  readonly folded: ReadonlySet<string>
  /** Each of those as `alike` leaves it. */
  readonly alike: ReadonlySet<string>
  /** Each as a pattern with `*` sees it. */
  readonly words: readonly string[]
}

/** Several rules look at one tool, and most need neither form. */
export function spellingsOf(names: readonly string[]): Spellings {
  const folded = once(() => new Set(names.map(foldName)))
  const looks = once(() => new Set([...folded()].map(alike)))
  const words = once(() => [...new Set(names.flatMap(wholeForms).flatMap(withAlike))])
  return {
    names,
    get folded() {
      return folded()
    },
    get alike() {
      return looks()
    },
    get words() {
      return words()
    },
  }
}

/**
 * Whether one of these patterns is about a tool, however its name is written. For rules that forbid or limit: they may
 * cover more than they say, never less.
 * @param given the patterns: names, or names with `*` for any run of characters
 */
export function covering(given: readonly string[]): (spelled: Spellings) => boolean {
  const exact = given.filter((pattern) => !pattern.includes('*')).map(foldName)
  const looks = exact.map(alike)
  const globs = given.filter((pattern) => pattern.includes('*')).flatMap(globsOf)
  return (spelled) =>
    exact.some((name) => spelled.folded.has(name)) ||
    looks.some((name) => spelled.alike.has(name)) ||
    (globs.length > 0 && spelled.words.some((name) => globs.some((parts) => matchesGlob(parts, name))))
}

/** Where the owner ends and the tool begins: the dot and the `__` of `github.find`, `github__find`. */
const SEPARATOR = /\.|__/g

/** A pattern read with each of its separators as the one behind the owner, whose part is kept as it is written. */
function globsOf(pattern: string): string[][] {
  const fold = (text: string): string => text.split('*').map(foldPiece).join('*')
  const owned = divisions(pattern).map(([owner, rest]) => `${owner.toLowerCase()}.${fold(rest)}`)
  return (owned.length > 0 ? owned : [fold(pattern)]).flatMap(withAlike).map((one) => one.split('*'))
}

/** Letters and digits that most typefaces draw nearly alike are the same. */
const alike = (folded: string): string =>
  folded.replaceAll(/[1i|]/g, 'l').replaceAll('0', 'o').replaceAll('rn', 'm').replaceAll('vv', 'w')

/**
 * A form of a name or pattern, how its tool's part looks, and that without separators. A pattern of few letters keeps its
 * separators: `set_*` would cover `settings`, and `*_all` would cover `install`.
 */
function withAlike(form: string): string[] {
  const at = form.lastIndexOf('.') + 1
  const [owner, rest] = [form.slice(0, at), form.slice(at)]
  const joined = rest.replaceAll('_', '')
  const isShort = rest.includes('*') && joined.replaceAll('*', '').length < MIN_JOINED
  return [...new Set([form, `${owner}${alike(rest)}`, ...(isShort ? [] : [`${owner}${alike(joined)}`])])]
}

const MIN_JOINED = 4

const wholeForms = (name: string): string[] => [
  foldWords(name),
  ...divisions(name).map(([owner, rest]) => `${owner.toLowerCase()}.${foldWords(rest)}`),
]

const divisions = (name: string): Array<readonly [string, string]> =>
  [...name.matchAll(SEPARATOR)].map(({ index, 0: separator }) => [
    name.slice(0, index),
    name.slice(index + separator.length),
  ])

/** Whether the parts between the stars of a pattern follow each other in a name. Linear time whatever the pattern. */
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
