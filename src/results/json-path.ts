import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { truncate } from '../core/truncate.ts'

/** One step of a path: a key, an index from either end, a slice, or all members. */
type Step =
  | { readonly key: string }
  | { readonly index: number }
  | { readonly from: number; readonly to: number | undefined }
  | 'all'

/** A text over this length is no path that anybody wrote. */
const MAX_CHARS = 1_000
const MAX_STEPS = 64
const STEP =
  /\.?\[\s*(?:(?<all>\*)|(?<from>-?\d*)\s*:\s*(?<to>-?\d*)|(?<index>-?\d+)|"(?<double>[^"]*)"|'(?<single>[^']*)')\s*\]|\.(?<star>\*)|(?:\.|^)(?<key>[^.[\]*\s]+)/y

/**
 * Reads a JSON path: `$.items[0].name`, `items[-1]`, `rows[10:20]`, `rows[*].id`, `$["odd key"]`.
 * @throws PegboardError E_VALIDATION
 */
function parsePath(path: string): readonly Step[] {
  const text = path.trim().replace(/^\$/, '')
  if (text.length > MAX_CHARS) throw badPath(path)
  const steps: Step[] = []
  for (let at = 0; at < text.length; at = STEP.lastIndex) {
    STEP.lastIndex = at
    const found = STEP.exec(text)?.groups
    if (!found || steps.length === MAX_STEPS) throw badPath(path)
    const { all, star, from, to, index, double, single, key } = found
    if (all !== undefined || star !== undefined) steps.push('all')
    else if (index !== undefined) steps.push({ index: Number(index) })
    else if (from !== undefined) steps.push({ from: Number(from), to: to ? Number(to) : undefined })
    else steps.push({ key: double ?? single ?? key ?? '' })
  }
  return steps
}

/** The first keys, shortened, for a hint. */
export const namesOf = (keys: readonly string[]): string =>
  keys
    .slice(0, 20)
    .map((key) => truncate(key, 60))
    .join(', ')

const badPath = (path: string): PegboardError =>
  new PegboardError('E_VALIDATION', `Invalid path "${path.slice(0, 80)}".`, {
    hint: 'Write it like $.items[0].name, $.items[10:20] or $.items[*].id.',
  })

/**
 * The part of a value that a path names. A slice or `*` gives a list of all that match.
 * @throws PegboardError E_VALIDATION for an invalid path, E_NOT_FOUND for one that names nothing
 */
export function selectPath(value: unknown, path: string): unknown {
  let found: readonly unknown[] = [value]
  let several = false
  for (const step of parsePath(path)) {
    several ||= step === 'all' || 'from' in step
    found = found.flatMap((one) => membersOf(one, step))
  }
  if (several) return found
  if (found.length === 0)
    throw new PegboardError('E_NOT_FOUND', `Nothing is at ${path.slice(0, 80)}.`, {
      hint: isRecord(value) ? `The keys are ${namesOf(Object.keys(value))}.` : 'Read the shape first.',
    })
  return found[0]
}

function membersOf(value: unknown, step: Step): readonly unknown[] {
  if (step === 'all') return Array.isArray(value) ? value : isRecord(value) ? Object.values(value) : []
  if ('key' in step) {
    if (isRecord(value)) return Object.hasOwn(value, step.key) ? [value[step.key]] : []
    // `rows.id` means the same as `rows[*].id`, which models write as often.
    return Array.isArray(value) ? value.flatMap((one) => (isRecord(one) ? membersOf(one, step) : [])) : []
  }
  if (!Array.isArray(value)) return []
  if ('index' in step) {
    const at = step.index < 0 ? value.length + step.index : step.index
    return at in value ? [value[at]] : []
  }
  return value.slice(step.from, step.to)
}
