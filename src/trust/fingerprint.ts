import { createHash } from 'node:crypto'

type Json = Readonly<Record<string, unknown>>

/** What is said of a tool to a model or a client; these together are what a person approves. */
export const FIELDS = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations'] as const

/** A definition without anything that is not approved with it (`_meta`, icons), in a fixed order. */
export function approvable(definition: Json): Json {
  return Object.fromEntries(
    FIELDS.flatMap((field) => (definition[field] === undefined ? [] : [[field, definition[field]]])),
  )
}

/** JSON with sorted keys: equal for equal values, whatever order a server writes them in. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical((value as Json)[key])}`)
  return `{${entries.join(',')}}`
}

/** SHA-256 over name, title, description, both schemas and annotations of a tool as its server sent it. */
export const digestOf = (definition: Json): Buffer =>
  createHash('sha256')
    .update(canonical(approvable(definition)))
    .digest()

/** The same in hex: what the lock file has. */
export const fingerprint = (definition: Json): string => digestOf(definition).toString('hex')
