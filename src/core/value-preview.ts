import { toPrintable } from './printable.ts'
import { looksSecret } from './secret-names.ts'
import { REDACTED } from './secret-values.ts'

const MAX_TEXT = 200
const MAX_ITEMS = 20
const MAX_LEVELS = 6

/**
 * A value shortened for people: long texts and lists say how much was cut, invisible characters are removed, and
 * values of fields that look like credentials are replaced.
 */
export function previewValue(value: unknown, level = 0): unknown {
  if (typeof value === 'string') {
    const text = toPrintable(value)
    return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}… (${text.length - MAX_TEXT} more characters)` : text
  }
  if (typeof value !== 'object' || value === null) return value
  if (level === MAX_LEVELS) return '…'
  if (Array.isArray(value)) {
    const items = value.slice(0, MAX_ITEMS).map((one) => previewValue(one, level + 1))
    return value.length > MAX_ITEMS ? [...items, `… (${value.length - MAX_ITEMS} more)`] : items
  }
  const entries = Object.entries(value)
  const shownEntries = entries
    .slice(0, MAX_ITEMS)
    .map(([key, one]) => [
      toPrintable(key).slice(0, MAX_TEXT),
      looksSecret(key) ? REDACTED : previewValue(one, level + 1),
    ])
  return Object.fromEntries(
    entries.length > MAX_ITEMS ? [...shownEntries, ['…', `${entries.length - MAX_ITEMS} more`]] : shownEntries,
  )
}

/** The shape of a value without its content: types and sizes. */
export function describeShape(value: unknown, level = 0): unknown {
  if (typeof value === 'string') return `string(${value.length})`
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value
  if (Array.isArray(value)) return `array(${value.length})`
  const entries = Object.entries(value)
  if (level === MAX_LEVELS) return `object(${entries.length})`
  const shownEntries = entries
    .slice(0, MAX_ITEMS)
    .map(([key, one]) => [key.slice(0, MAX_TEXT), describeShape(one, level + 1)])
  return Object.fromEntries(
    entries.length > MAX_ITEMS ? [...shownEntries, ['…', `${entries.length - MAX_ITEMS} more`]] : shownEntries,
  )
}
