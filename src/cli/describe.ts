import { isRecord } from '../core/record.ts'

/** A JSON Schema's type as people write it: `string`, `"a" | "b"`, `string[]`, `object`. */
export function typeOf(schema: unknown): string {
  if (!isRecord(schema)) return 'any'
  if (Array.isArray(schema['enum'])) return schema['enum'].map((value) => JSON.stringify(value)).join(' | ')
  if (schema['const'] !== undefined) return JSON.stringify(schema['const'])
  const variants = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(variants)) return [...new Set(variants.map(typeOf))].join(' | ')
  const { type } = schema
  if (type === 'array') return `${typeOf(schema['items'])}[]`
  if (Array.isArray(type)) return type.join(' | ')
  return typeof type === 'string' ? type : 'any'
}

/** The default as JSON text; undefined without one. */
export function defaultOf(schema: unknown): string | undefined {
  return isRecord(schema) && schema['default'] !== undefined ? JSON.stringify(schema['default']) : undefined
}

/** A module that could not be loaded, in a line; the message often names the file already, with its line. */
export const failureLine = ({ file, error }: { readonly file: string; readonly error: string }): string =>
  error.startsWith(file) ? error : `${file}: ${error}`
