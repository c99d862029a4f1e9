import { createHash } from 'node:crypto'

/** JSON with sorted keys, because clients may order the same arguments differently. */
export function toCanonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, one: unknown) =>
    typeof one === 'object' && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  )
}

/** SHA-256 in hex; equal for equal values, whatever the order of keys. */
export const digestOf = (value: unknown): string =>
  createHash('sha256')
    .update(toCanonicalJson(value) ?? 'undefined')
    .digest('hex')
