import { createHash } from 'node:crypto'

/** JSON with the members of objects in one order: a client may write the same arguments in another. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, one: unknown) =>
    typeof one === 'object' && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  )
}

/** The same for the same value, whoever wrote it: SHA-256 in hexadecimal. */
export const digestOf = (value: unknown): string =>
  createHash('sha256')
    .update(canonical(value) ?? 'undefined')
    .digest('hex')
