import { hash } from 'node:crypto'
import type { Json } from './is-record.ts'

/** Like `JSON.stringify`, but with sorted keys: equal values give equal texts whatever the order of keys. */
export function toCanonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join(',')}]`
  // Dates and URLs have `toJSON`. `JSON.parse` returns no functions, so the recursion does not come here again.
  if (typeof (value as Json)['toJSON'] === 'function') return toCanonicalJson(JSON.parse(JSON.stringify(value)))
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  members.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${toCanonicalJson(member)}`).join(',')}}`
}

/** SHA-256 in hex; equal for equal values, whatever the order of keys. */
export const digestOf = (value: unknown): string => hash('sha256', toCanonicalJson(value))
