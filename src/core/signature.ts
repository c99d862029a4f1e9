import { isRecord } from './record.ts'
import type { JsonSchema } from './schema.ts'

const MAX_ENUM = 6
const MAX_PARAMETERS = 24

/**
 * A tool's parameters in one line, as a model reads them: `path: str, limit?: int = 2000, mode?: "a"|"b"`.
 * Required ones come first; `?` marks optional ones. A twentieth of the tokens of the schema.
 */
export function signatureOf(json: JsonSchema): string {
  const properties = isRecord(json.properties) ? json.properties : {}
  const required = new Set(Array.isArray(json.required) ? json.required : [])
  const names = Object.keys(properties).sort((a, b) => Number(required.has(b)) - Number(required.has(a)))
  const shown = names.slice(0, MAX_PARAMETERS).map((name) => {
    const schema = properties[name]
    const fallback = isRecord(schema) && isScalar(schema.default) ? ` = ${JSON.stringify(schema.default)}` : ''
    return `${name}${required.has(name) ? '' : '?'}: ${typeOf(schema, 0)}${fallback}`
  })
  if (names.length > shown.length) shown.push(`… ${names.length - shown.length} more`)
  return shown.join(', ')
}

const SHORT: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'num',
  boolean: 'bool',
  object: 'obj',
  null: 'null',
}

function typeOf(schema: unknown, depth: number): string {
  if (!isRecord(schema)) return 'any'
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (Array.isArray(schema.enum)) {
    const values = schema.enum.slice(0, MAX_ENUM).map((value) => JSON.stringify(value))
    return values.join('|') + (schema.enum.length > MAX_ENUM ? '|…' : '')
  }
  const variants = schema.anyOf ?? schema.oneOf
  if (Array.isArray(variants) && depth < 2)
    return [...new Set(variants.slice(0, 4).map((variant) => typeOf(variant, depth + 1)))].join('|')
  const type = schema.type
  if (Array.isArray(type)) return type.map((one) => SHORT[String(one)] ?? String(one)).join('|')
  if (type === 'array') return depth < 2 ? `${typeOf(schema.items, depth + 1)}[]` : 'array'
  if (type === 'object' && depth === 0 && isRecord(schema.properties)) {
    const inner = signatureOf(schema)
    return inner.length <= 80 ? `{${inner}}` : 'obj'
  }
  return typeof type === 'string' ? (SHORT[type] ?? type) : 'any'
}
const isScalar = (value: unknown): boolean =>
  ['string', 'number', 'boolean'].includes(typeof value) && String(value).length <= 24
