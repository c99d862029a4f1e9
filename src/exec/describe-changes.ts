import { formatCount } from '../core/format-count.ts'
import { isRecord } from '../core/is-record.ts'
import { truncate } from '../core/truncate.ts'

/** Maximum number of changes that are described. */
const SHOWN = 5
/** Maximum number of characters of each value. */
const VALUE = 80
/** Deeper parts are compared as a whole. */
const MAX_LEVELS = 6
/** Characters that two long texts share before the first difference. */
const SHARED = 20

/** What differs between two results, such as `status: 200 → 500, json.rows: 3 items → 4 items`. */
export function describeChanges(before: unknown, now: unknown): string {
  const changes = changesAt('', before, now, MAX_LEVELS)
  const more = changes.length > SHOWN ? `, and ${changes.length - SHOWN} more` : ''
  return `${changes.slice(0, SHOWN).join(', ')}${more}`
}

function changesAt(path: string, before: unknown, now: unknown, levels: number): readonly string[] {
  if (JSON.stringify(before) === JSON.stringify(now)) return []
  const areRecords = isRecord(before) && isRecord(now)
  const areLists = Array.isArray(before) && Array.isArray(now) && before.length === now.length
  if ((areRecords || areLists) && levels > 0) {
    const [old, recent] = [before as Record<string, unknown>, now as Record<string, unknown>]
    const keys = [...new Set([...Object.keys(old), ...Object.keys(recent)])]
    return keys.flatMap((key) => changesAt(path === '' ? key : `${path}.${key}`, old[key], recent[key], levels - 1))
  }
  const from = typeof before === 'string' && typeof now === 'string' ? firstDifference(before, now) - SHARED : 0
  const change = `${valueText(before, from)} → ${valueText(now, from)}`
  return [path === '' ? change : `${path}: ${change}`]
}

function firstDifference(a: string, b: string): number {
  let at = 0
  while (at < a.length && a[at] === b[at]) at++
  return at
}

/** @param from first character of a long text that is shown */
function valueText(value: unknown, from: number): string {
  if (value === undefined) return 'missing'
  if (Array.isArray(value)) return formatCount(value.length, 'item')
  const part = typeof value === 'string' && value.length > VALUE ? value.slice(Math.max(0, from)) : value
  const text = JSON.stringify(part)
  return text.length > VALUE ? `${truncate(text, VALUE)}…` : text
}
