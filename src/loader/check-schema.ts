import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { compiles } from '../core/regex-pattern.ts'
import type { JsonSchema } from '../core/schema.ts'
import { LIST_KEYWORDS, MAP_KEYWORDS, SCHEMA_KEYWORDS, SCHEMA_TYPES } from '../core/schema-keywords.ts'

const MAX_DEPTH = 64

/**
 * Finds mistakes that make a schema useless: unknown types, parts that are not schemas, invalid patterns.
 * @throws PegboardError E_MODULE_SHAPE naming the location
 */
export function checkSchema(schema: unknown, place: string, depth = 0): asserts schema is JsonSchema {
  if (typeof schema === 'boolean' && depth > 0) return
  if (!isRecord(schema)) throw createSchemaError(place, 'is not a JSON Schema')
  if (depth > MAX_DEPTH) throw createSchemaError(place, `is nested more than ${MAX_DEPTH} deep`)
  const { type, pattern, required } = schema
  for (const name of Array.isArray(type) ? type : type === undefined ? [] : [type])
    if (!SCHEMA_TYPES.has(name)) throw createSchemaError(`${place}.type`, `is ${JSON.stringify(name)}`)
  if (pattern !== undefined && !(typeof pattern === 'string' && compiles(pattern)))
    throw createSchemaError(`${place}.pattern`, 'is not a regular expression')
  if (required !== undefined && !(Array.isArray(required) && required.every((name) => typeof name === 'string')))
    throw createSchemaError(`${place}.required`, 'is not a list of names')
  for (const key of SCHEMA_KEYWORDS)
    if (schema[key] !== undefined) checkSchema(schema[key], `${place}.${key}`, depth + 1)
  for (const key of LIST_KEYWORDS) {
    const list = schema[key]
    if (list === undefined) continue
    if (!Array.isArray(list)) throw createSchemaError(`${place}.${key}`, 'is not a list')
    list.forEach((item, index) => {
      checkSchema(item, `${place}.${key}.${index}`, depth + 1)
    })
  }
  for (const key of MAP_KEYWORDS) {
    const map = schema[key]
    if (map === undefined) continue
    if (!isRecord(map)) throw createSchemaError(`${place}.${key}`, 'is not an object')
    for (const [name, item] of Object.entries(map)) checkSchema(item, `${place}.${key}.${name}`, depth + 1)
  }
}

const createSchemaError = (place: string, what: string): PegboardError =>
  new PegboardError('E_MODULE_SHAPE', `${place} ${what}.`)
