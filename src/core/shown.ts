import { looksSecret } from './credentials.ts'
import { plain } from './plain.ts'
import { REDACTED } from './tripwire.ts'

const MAX_TEXT = 200
const MAX_ITEMS = 20
const MAX_LEVELS = 6

/**
 * A value cut down to what a person can look over: long texts and lists say how much more there is, characters nobody
 * sees are left out, and fields that look like credentials have no value.
 */
export function shown(value: unknown, level = 0): unknown {
  if (typeof value === 'string') {
    const text = plain(value)
    return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}… (${text.length - MAX_TEXT} more characters)` : text
  }
  if (typeof value !== 'object' || value === null) return value
  if (level === MAX_LEVELS) return '…'
  if (Array.isArray(value)) {
    const items = value.slice(0, MAX_ITEMS).map((one) => shown(one, level + 1))
    return value.length > MAX_ITEMS ? [...items, `… (${value.length - MAX_ITEMS} more)`] : items
  }
  const entries = Object.entries(value)
  const kept = entries
    .slice(0, MAX_ITEMS)
    .map(([key, one]) => [plain(key).slice(0, MAX_TEXT), looksSecret(key) ? REDACTED : shown(one, level + 1)])
  return Object.fromEntries(entries.length > MAX_ITEMS ? [...kept, ['…', `${entries.length - MAX_ITEMS} more`]] : kept)
}

/** What a value looks like, without anything it says: types and sizes. */
export function shapeOf(value: unknown, level = 0): unknown {
  if (typeof value === 'string') return `string(${value.length})`
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value
  if (Array.isArray(value)) return `array(${value.length})`
  const entries = Object.entries(value)
  if (level === MAX_LEVELS) return `object(${entries.length})`
  const kept = entries.slice(0, MAX_ITEMS).map(([key, one]) => [key.slice(0, MAX_TEXT), shapeOf(one, level + 1)])
  return Object.fromEntries(entries.length > MAX_ITEMS ? [...kept, ['…', `${entries.length - MAX_ITEMS} more`]] : kept)
}
