import { toCanonicalJson } from '../core/canonical.ts'
import type { Json } from '../core/is-record.ts'
import { escapeInvisible, escapeLine } from './find-hidden-text.ts'

/** One changed place of a definition, with invisible characters escaped. */
export interface Change {
  /** Path of the place: `inputSchema.properties.city.type`. */
  readonly field: string
  /** `- ` removed, `+ ` added, two spaces unchanged. */
  readonly lines: readonly string[]
}

/** Number of unchanged lines shown around a change. */
const CONTEXT = 1
const MAX_LINES = 600
/** Values up to this length are shown on one line. */
const WIDE = 80

/** Keys that models read come first, the others by name. */
const FIRST = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations']
const rank = (field: string): number => (FIRST.includes(field) ? FIRST.indexOf(field) : FIRST.length)

/** The differences between an approved definition and the current one. */
export const changesBetween = (before: Json, after: Json): Change[] =>
  membersOf(before, after)
    .sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .flatMap(([field, was, is]) => findDifferences(stepTo('', field), was, is, true))

/** A new tool's whole definition, shown as added lines. */
export const linesOfNew = ({ name: _, ...after }: Json): Change[] => changesBetween({}, after)

function findDifferences(path: string, was: unknown, is: unknown, top = false): Change[] {
  if (toCanonicalJson(was) === toCanonicalJson(is)) return []
  if (isTree(is) && was === undefined && compact(is).length > WIDE)
    return compareMembers(path, Array.isArray(is) ? [] : {}, is)
  if (isTree(was) && isTree(is) && Array.isArray(was) === Array.isArray(is)) {
    if (Array.isArray(was) && Array.isArray(is) && was.length !== is.length && ![...was, ...is].some(isTree))
      return [{ field: path, lines: keepNearChanges(lineDiff(was.map(compact), is.map(compact))) }]
    return compareMembers(path, was, is)
  }
  const texts = [was, is].filter((value) => value !== undefined)
  const plain = texts.every((value) => typeof value === 'string') && (top || texts.some((text) => isLong(text)))
  return [
    { field: path, lines: plain ? textDiff(was as string | undefined, is as string | undefined) : showBoth(was, is) },
  ]
}

const compareMembers = (path: string, was: object, is: object): Change[] =>
  membersOf(was, is).flatMap(([key, before, after]) =>
    findDifferences(Array.isArray(is) ? `${path}[${key}]` : stepTo(path, key), before, after),
  )

/** All keys of both objects, with both values. */
function membersOf(was: object, is: object): [key: string, was: unknown, is: unknown][] {
  const at = (holder: object, key: string): unknown => (Object.hasOwn(holder, key) ? holder[key as never] : undefined)
  const keys = [...new Set([...Object.keys(was), ...Object.keys(is)])]
  return (Array.isArray(is) ? keys : keys.sort()).map((key) => [key, at(was, key), at(is, key)])
}

const stepTo = (path: string, key: string): string =>
  /^[\w$-]+$/.test(key)
    ? `${path}${path && '.'}${key.slice(0, WIDE)}`
    : `${path}[${escapeLine(JSON.stringify(key)).slice(0, WIDE)}]`

const isTree = (value: unknown): value is object => typeof value === 'object' && value !== null
const isLong = (value: unknown): boolean => typeof value === 'string' && (value.length > WIDE || value.includes('\n'))

const compact = (value: unknown): string => escapeInvisible(toCanonicalJson(value))

const showBoth = (was: unknown, is: unknown): string[] => [
  ...(was === undefined ? [] : [`- ${compact(was)}`]),
  ...(is === undefined ? [] : [`+ ${compact(is)}`]),
]

/** Compares a text line by line, and long lines sentence by sentence. */
function textDiff(was: string | undefined, is: string | undefined): string[] {
  const linesOf = (text: string | undefined, end: RegExp): string[] => text?.split(end).map(escapeInvisible) ?? []
  const end = was === undefined || is === undefined ? /\r?\n/ : /\r?\n|(?<=[.!?]) /
  const lines = lineDiff(linesOf(was, end), linesOf(is, end))
  // Only white space may have changed.
  return lines.some((line) => !line.startsWith('  ')) ? keepNearChanges(lines) : showBoth(was, is)
}

/** Longest common subsequence. Above a size limit, all old lines are shown as removed and all new ones as added. */
function lineDiff(before: readonly string[], after: readonly string[]): string[] {
  const commonLines = findCommonLines(before, after)
  const lines: string[] = []
  let [i, j] = [0, 0]
  for (const [a, b] of [...commonLines, [before.length, after.length] as const]) {
    lines.push(...before.slice(i, a).map((line) => `- ${line}`), ...after.slice(j, b).map((line) => `+ ${line}`))
    if (a < before.length) lines.push(`  ${before[a]}`)
    ;[i, j] = [a + 1, b + 1]
  }
  return lines
}

function findCommonLines(
  before: readonly string[],
  after: readonly string[],
): ReadonlyArray<readonly [number, number]> {
  if (before.length > MAX_LINES || after.length > MAX_LINES) return []
  const lengths = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1))
  const at = (i: number, j: number): number => lengths[i]?.[j] ?? 0
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      (lengths[i] as Uint16Array)[j] =
        before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
  const pairs: Array<readonly [number, number]> = []
  for (let i = 0, j = 0; i < before.length && j < after.length; ) {
    if (before[i] === after[j]) pairs.push([i++, j++])
    else if (at(i + 1, j) >= at(i, j + 1)) i++
    else j++
  }
  return pairs
}

/** Drops unchanged lines that are far from any change. */
function keepNearChanges(lines: readonly string[]): string[] {
  const changed = lines.map((line) => !line.startsWith('  '))
  const shown = lines.map((_line, at) => changed.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(Boolean))
  return lines.flatMap((line, at) => (shown[at] ? [line] : at === 0 || shown[at - 1] ? ['  …'] : []))
}
