import { hash } from 'node:crypto'
import type { Json } from './is-record.ts'

/** JSON with sorted keys, so that equal values give equal texts whatever the order of keys. */
export function toCanonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join(',')}]`
  let text = ''
  for (const key of Object.keys(value).sort())
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${toCanonicalJson((value as Json)[key])}`
  return `{${text}}`
}

/** SHA-256 in hex; equal for equal values, whatever the order of keys. */
export const digestOf = (value: unknown): string => hash('sha256', toCanonicalJson(value))
