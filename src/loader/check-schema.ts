import type { PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { resolvePointer } from '../core/json-pointer.ts'
import { compiles } from '../core/regex-pattern.ts'
import type { JsonSchema } from '../core/schema.ts'
import { LIST_KEYWORDS, MAP_KEYWORDS, SCHEMA_KEYWORDS, SCHEMA_TYPES } from '../core/schema-keywords.ts'
import { createShapeError } from './shape-error.ts'

const MAX_DEPTH = 64

/**
 * Finds mistakes that make a schema useless: unknown types, parts that are not schemas, invalid patterns, references
 * that lead nowhere.
 * @throws PegboardError E_MODULE_SHAPE naming the location
 */
export function checkSchema(schema: unknown, place: string): asserts schema is JsonSchema {
  if (!isRecord(schema)) throw createSchemaError(place, 'is not a JSON Schema')
  const parts = [...checkedParts(schema, place)]
  // References in a schema with an id are relative to that schema.
  if (parts.some(([, { $id, id }]) => typeof $id === 'string' || typeof id === 'string')) return
  for (const [at, { $ref }] of parts)
    if (typeof $ref === 'string' && $ref.startsWith('#/') && !isSchema(resolvePointer(schema, $ref)))
      throw createSchemaError(`${at}.$ref`, `leads nowhere: ${JSON.stringify($ref)}`)
}

/** A schema and those in it, with their location, each checked before the ones in it. */
function* checkedParts(schema: unknown, place: string, depth = 0): Generator<readonly [place: string, part: Json]> {
  if (typeof schema === 'boolean' && depth > 0) return
  if (!isRecord(schema)) throw createSchemaError(place, 'is not a JSON Schema')
  if (depth > MAX_DEPTH) throw createSchemaError(place, `is nested more than ${MAX_DEPTH} deep`)
  checkValues(schema, place)
  yield [place, schema]
  for (const [key, part] of partsOf(schema, place)) yield* checkedParts(part, `${place}.${key}`, depth + 1)
}

const isSchema = (value: unknown): boolean => isRecord(value) || typeof value === 'boolean'

/** Checks the keywords whose values are not schemas. */
function checkValues({ type, pattern, required }: Json, place: string): void {
  const types = type === undefined ? [] : [type].flat()
  for (const name of types)
    if (!SCHEMA_TYPES.has(name)) throw createSchemaError(`${place}.type`, `is ${JSON.stringify(name)}`)
  if (pattern !== undefined && !(typeof pattern === 'string' && compiles(pattern)))
    throw createSchemaError(`${place}.pattern`, 'is not a regular expression')
  if (required !== undefined && !(Array.isArray(required) && required.every((name) => typeof name === 'string')))
    throw createSchemaError(`${place}.required`, 'is not a list of names')
}

/** The schemas directly in a schema, with their location in it. */
function* partsOf(schema: Json, place: string): Generator<readonly [key: string, part: unknown]> {
  for (const key of SCHEMA_KEYWORDS) if (schema[key] !== undefined) yield [key, schema[key]]
  for (const key of LIST_KEYWORDS) {
    const { [key]: list = [] } = schema
    if (!Array.isArray(list)) throw createSchemaError(`${place}.${key}`, 'is not a list')
    for (const [index, item] of list.entries()) yield [`${key}.${index}`, item]
  }
  for (const key of MAP_KEYWORDS) {
    const { [key]: map = {} } = schema
    if (!isRecord(map)) throw createSchemaError(`${place}.${key}`, 'is not an object')
    for (const [name, item] of Object.entries(map)) yield [`${key}.${name}`, item]
  }
}

const createSchemaError = (place: string, what: string): PegboardError => createShapeError(`${place} ${what}`)
