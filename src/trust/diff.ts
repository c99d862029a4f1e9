import { canonical } from './fingerprint.ts'
import { escaped, escapedLine } from './hidden.ts'

type Json = Readonly<Record<string, unknown>>

/** One field of a definition that is not as it was. Everything unseen is escaped. */
export interface Change {
  readonly field: string
  /** `- ` what went, `+ ` what came, two spaces what stayed. */
  readonly lines: readonly string[]
}

/** Lines around a change that are shown, too. */
const CONTEXT = 1
const MOST = 600

/** What a model reads first, then the rest by name. */
const FIRST = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations']
const fieldsOf = (definition: Json): string[] => {
  const rank = (field: string): number => (FIRST.includes(field) ? FIRST.indexOf(field) : FIRST.length)
  return Object.keys(definition)
    .filter((field) => definition[field] !== undefined)
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
}

/** What differs between an approved definition and the one of now, field by field. */
export function changesBetween(before: Json, after: Json): Change[] {
  const fields = fieldsOf({ ...before, ...after })
  return fields
    .filter((field) => canonical(before[field]) !== canonical(after[field]))
    .map((field) => ({
      field: escapedLine(field).slice(0, 80),
      lines: near(lineDiff(linesOf(before[field]), linesOf(after[field]))),
    }))
}

/** The definition of a tool nobody has approved, for reading. */
export const linesOfNew = (after: Json): Change[] =>
  fieldsOf(after)
    .filter((field) => field !== 'name')
    .map((field) => ({
      field: escapedLine(field).slice(0, 80),
      lines: linesOf(after[field]).map((line) => `+ ${line}`),
    }))

function linesOf(value: unknown): string[] {
  if (value === undefined) return []
  const text = typeof value === 'string' ? value : JSON.stringify(sorted(value), null, 2)
  return text.split(/\r?\n/).map(escaped)
}

/** Keys in one order, so that a server that only writes them in another shows no change. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]))
}

/** The longest common subsequence; beyond a size all that is old goes and all that is new comes. */
function lineDiff(before: readonly string[], after: readonly string[]): string[] {
  const kept = common(before, after)
  const lines: string[] = []
  let [i, j] = [0, 0]
  for (const [a, b] of [...kept, [before.length, after.length] as const]) {
    lines.push(...before.slice(i, a).map((line) => `- ${line}`), ...after.slice(j, b).map((line) => `+ ${line}`))
    if (a < before.length) lines.push(`  ${before[a]}`)
    ;[i, j] = [a + 1, b + 1]
  }
  return lines
}

function common(before: readonly string[], after: readonly string[]): ReadonlyArray<readonly [number, number]> {
  if (before.length > MOST || after.length > MOST) return []
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

/** Leaves out what stayed and is far from any change. */
function near(lines: readonly string[]): string[] {
  const changed = lines.map((line) => !line.startsWith('  '))
  const shown = lines.map((_line, at) => changed.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(Boolean))
  return lines.flatMap((line, at) => (shown[at] ? [line] : at === 0 || shown[at - 1] ? ['  …'] : []))
}
