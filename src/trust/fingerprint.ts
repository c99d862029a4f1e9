import { hash } from 'node:crypto'
import type { Json } from '../core/is-record.ts'

/** JSON with sorted keys, so that equal values give equal texts whatever the order of keys. */
export function toCanonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join(',')}]`
  let text = ''
  for (const key of Object.keys(value).sort())
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${toCanonicalJson((value as Json)[key])}`
  return `{${text}}`
}

/** SHA-256 of the whole definition, including `_meta` and icons, because those are passed on to clients too. */
export const digestOf = (definition: Json): Buffer => hash('sha256', toCanonicalJson(definition), 'buffer')

/** The same in hex, as in the lock file. */
export const fingerprint = (definition: Json): string => digestOf(definition).toString('hex')
