import { formatCount } from '../core/format-count.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { truncate } from '../core/truncate.ts'

/** Rows of a list that are looked at: the first ones, and some spread over the rest. */
const SAMPLED = 400
const MAX_KEYS = 40
const MAX_LEVELS = 6
const MAX_KEY_CHARS = 60

/**
 * The shape of a JSON value on one line, like a type: `{total: integer, rows: 3000 × {id: integer, name: string,
 * note?: string|null}}`. Keys that some rows lack are marked with `?`.
 * @param max characters
 */
export function shapeOf(value: unknown, max = 1_200): string {
  // Fewer levels until it fits.
  for (let levels = MAX_LEVELS; levels > 0; levels--) {
    const shape = shapeAt([value], levels)
    if (shape.length <= max) return shape
  }
  return `${truncate(shapeAt([value], 1), max - 1)}…`
}

function shapeAt(values: readonly unknown[], levels: number): string {
  const lists = values.filter((one) => Array.isArray(one))
  const records = values.filter(isRecord)
  const kinds = [...new Set(values.filter((one) => !Array.isArray(one) && !isRecord(one)).map(kindOf))]
  if (lists.length > 0) kinds.push(shapeOfLists(lists, levels))
  if (records.length > 0) kinds.push(shapeOfRecords(records, levels))
  return kinds.join('|')
}

function shapeOfLists(lists: readonly (readonly unknown[])[], levels: number): string {
  const lengths = lists.map(({ length }) => length)
  const [least, most] = [Math.min(...lengths), Math.max(...lengths)]
  const count = least === most ? String(most) : `${least}–${most}`
  if (most === 0) return '[]'
  if (levels <= 1) return `${count} × …`
  const rows = lists.flatMap((list) => sample(list, Math.ceil(SAMPLED / lists.length)))
  return `${count} × ${shapeAt(rows, levels - 1)}`
}

function shapeOfRecords(records: readonly Json[], levels: number): string {
  const byKey = new Map<string, unknown[]>()
  for (const record of records)
    for (const key of Object.keys(record)) getOrInsert(byKey, key, () => []).push(record[key])
  if (byKey.size === 0) return '{}'
  if (levels <= 1) return `{${formatCount(byKey.size, 'key')}}`
  const shown = [...byKey].slice(0, MAX_KEYS).map(([key, found]) => {
    const mark = found.length < records.length ? '?' : ''
    return `${truncate(key, MAX_KEY_CHARS)}${mark}: ${shapeAt(found, levels - 1)}`
  })
  if (byKey.size > MAX_KEYS) shown.push(`… ${byKey.size - MAX_KEYS} more`)
  return `{${shown.join(', ')}}`
}

function sample(list: readonly unknown[], most: number): readonly unknown[] {
  if (list.length <= most) return list
  const half = Math.ceil(most / 2)
  const step = (list.length - half) / half
  return [...list.slice(0, half), ...Array.from({ length: half }, (_, at) => list[half + Math.floor(at * step)])]
}

const kindOf = (value: unknown): string =>
  value === null ? 'null' : typeof value === 'number' && Number.isInteger(value) ? 'integer' : typeof value
