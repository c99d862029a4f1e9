import { hash } from 'node:crypto'

type Json = Readonly<Record<string, unknown>>

/** JSON with sorted keys: equal for equal values, whatever order a server writes them in. */
export function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  let text = ''
  for (const key of Object.keys(value).sort())
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonical((value as Json)[key])}`
  return `{${text}}`
}

/** SHA-256 over the whole definition of a tool as its server sent it: what `_meta` or an icon says is relayed too. */
export const digestOf = (definition: Json): Buffer => hash('sha256', canonical(definition), 'buffer')

/** The same in hex: what the lock file has. */
export const fingerprint = (definition: Json): string => digestOf(definition).toString('hex')
