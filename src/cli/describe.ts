import { isRecord } from '../core/is-record.ts'

/** The type of a JSON Schema as text: `string`, `"a" | "b"`, `(string | number)[]`, `object`. */
export function describeType(schema: unknown): string {
  if (!isRecord(schema)) return 'any'
  if (Array.isArray(schema['enum'])) return schema['enum'].map((value) => JSON.stringify(value)).join(' | ')
  if (schema['const'] !== undefined) return JSON.stringify(schema['const'])
  const variants = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(variants)) return [...new Set(variants.map(describeType))].join(' | ')
  const { type } = schema
  if (type === 'array') {
    const item = describeType(schema['items'])
    return item.includes(' | ') ? `(${item})[]` : `${item}[]`
  }
  if (Array.isArray(type)) return type.join(' | ')
  return typeof type === 'string' ? type : 'any'
}

/** The default as JSON; undefined without one. */
export function describeDefault(schema: unknown): string | undefined {
  return isRecord(schema) && schema['default'] !== undefined ? JSON.stringify(schema['default']) : undefined
}
