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
const MAX_WIDTH = 80

/** Keys that models read come first, the others by name. */
const FIRST_FIELDS = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations']
const rank = (field: string): number =>
  FIRST_FIELDS.includes(field) ? FIRST_FIELDS.indexOf(field) : FIRST_FIELDS.length

/** The differences between an approved definition and the current one. */
export const changesBetween = (before: Json, after: Json): Change[] =>
  membersOf(before, after)
    .sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .flatMap(([field, oldValue, newValue]) => findDifferences(appendKey('', field), oldValue, newValue, true))

/** A new tool's whole definition, shown as added lines. */
export const changesOfNew = ({ name: _, ...after }: Json): Change[] => changesBetween({}, after)

function findDifferences(path: string, oldValue: unknown, newValue: unknown, top = false): Change[] {
  if (toCanonicalJson(oldValue) === toCanonicalJson(newValue)) return []
  if (isTree(newValue) && oldValue === undefined && compact(newValue).length > MAX_WIDTH)
    return compareMembers(path, Array.isArray(newValue) ? [] : {}, newValue)
  if (isTree(oldValue) && isTree(newValue) && Array.isArray(oldValue) === Array.isArray(newValue)) {
    if (
      Array.isArray(oldValue) &&
      Array.isArray(newValue) &&
      oldValue.length !== newValue.length &&
      ![...oldValue, ...newValue].some(isTree)
    )
      return [{ field: path, lines: keepNearChanges(diffLines(oldValue.map(compact), newValue.map(compact))) }]
    return compareMembers(path, oldValue, newValue)
  }
  const texts = [oldValue, newValue].filter((value) => value !== undefined)
  const isText = texts.every((value) => typeof value === 'string') && (top || texts.some((text) => isLong(text)))
  return [
    {
      field: path,
      lines: isText
        ? diffTexts(oldValue as string | undefined, newValue as string | undefined)
        : showBoth(oldValue, newValue),
    },
  ]
}

const compareMembers = (path: string, oldObject: object, newObject: object): Change[] =>
  membersOf(oldObject, newObject).flatMap(([key, oldValue, newValue]) =>
    findDifferences(Array.isArray(newObject) ? `${path}[${key}]` : appendKey(path, key), oldValue, newValue),
  )

/** All keys of both objects, with both values. */
function membersOf(oldObject: object, newObject: object): [key: string, oldValue: unknown, newValue: unknown][] {
  const valueAt = (holder: object, key: string): unknown =>
    Object.hasOwn(holder, key) ? holder[key as never] : undefined
  const keys = [...new Set([...Object.keys(oldObject), ...Object.keys(newObject)])]
  return (Array.isArray(newObject) ? keys : keys.sort()).map((key) => [
    key,
    valueAt(oldObject, key),
    valueAt(newObject, key),
  ])
}

const appendKey = (path: string, key: string): string =>
  /^[\w$-]+$/.test(key)
    ? `${path}${path && '.'}${key.slice(0, MAX_WIDTH)}`
    : `${path}[${escapeLine(JSON.stringify(key)).slice(0, MAX_WIDTH)}]`

const isTree = (value: unknown): value is object => typeof value === 'object' && value !== null
const isLong = (value: unknown): boolean =>
  typeof value === 'string' && (value.length > MAX_WIDTH || value.includes('\n'))

const compact = (value: unknown): string => escapeInvisible(toCanonicalJson(value))

const showBoth = (oldValue: unknown, newValue: unknown): string[] => [
  ...(oldValue === undefined ? [] : [`- ${compact(oldValue)}`]),
  ...(newValue === undefined ? [] : [`+ ${compact(newValue)}`]),
]

/** Compares a text line by line, and long lines sentence by sentence. */
function diffTexts(oldText: string | undefined, newText: string | undefined): string[] {
  const linesOf = (text: string | undefined, end: RegExp): string[] => text?.split(end).map(escapeInvisible) ?? []
  const end = oldText === undefined || newText === undefined ? /\r?\n/ : /\r?\n|(?<=[.!?]) /
  const lines = diffLines(linesOf(oldText, end), linesOf(newText, end))
  // Only white space may have changed.
  return lines.some((line) => !line.startsWith('  ')) ? keepNearChanges(lines) : showBoth(oldText, newText)
}

/** Longest common subsequence. Above a size limit, all old lines are shown as removed and all new ones as added. */
function diffLines(before: readonly string[], after: readonly string[]): string[] {
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
  const lengthAt = (i: number, j: number): number => lengths[i]?.[j] ?? 0
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      (lengths[i] as Uint16Array)[j] =
        before[i] === after[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1))
  const pairs: Array<readonly [number, number]> = []
  for (let i = 0, j = 0; i < before.length && j < after.length; ) {
    if (before[i] === after[j]) pairs.push([i++, j++])
    else if (lengthAt(i + 1, j) >= lengthAt(i, j + 1)) i++
    else j++
  }
  return pairs
}

/** Drops unchanged lines that are far from any change. */
function keepNearChanges(lines: readonly string[]): string[] {
  const changed = lines.map((line) => !line.startsWith('  '))
  const isShown = lines.map((_line, index) =>
    changed.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(Boolean),
  )
  return lines.flatMap((line, index) => (isShown[index] ? [line] : index === 0 || isShown[index - 1] ? ['  …'] : []))
}
