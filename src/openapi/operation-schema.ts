import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { resolvePointer } from '../core/json-pointer.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { toPrintable } from '../core/printable.ts'
import { isRegexPattern } from '../core/regex-pattern.ts'
import type { JsonSchema } from '../core/schema.ts'
import { LIST_KEYWORDS, MAP_KEYWORDS, SCHEMA_KEYWORDS } from '../core/schema-keywords.ts'
import { createUniqueNames } from '../core/tool-names.ts'

/** Requests omit read-only properties, responses omit write-only ones. */
export type Direction = 'request' | 'response'

export interface Converter {
  /** Converts a schema of the document to JSON Schema 2020-12. Referenced schemas are added to `definitions`. */
  convert(schema: unknown): JsonSchema | boolean
  /** The same, but resolves a reference at the top and merges an `allOf` of plain objects. */
  convertMerged(schema: unknown): JsonSchema
  /** Resolves references and merges an `allOf` of a converted schema, as `convertMerged` does. */
  resolve(schema: unknown): JsonSchema
  /** What converted schemas refer to, for their `$defs`. */
  definitionsOf(schemas: unknown): Readonly<Record<string, unknown>>
}

const TEXTS = new Set(['title', 'description', '$comment'])
/** Keywords without meaning for a JSON Schema validator, and those that `convert` reads itself. */
const DROPPED = new Set('__proto__ $ref nullable xml externalDocs discriminator example readOnly writeOnly'.split(' '))

export function createConverter(document: Json, direction: Direction): Converter {
  const isVersion30 = String(document['openapi']).startsWith('3.0')
  const names = new Map<string, string>()
  const uniqueName = createUniqueNames()
  const definitions: Record<string, unknown> = {}
  const hiddenKeyword = direction === 'request' ? 'readOnly' : 'writeOnly'

  function createReference(ref: string): JsonSchema {
    let name = names.get(ref)
    if (name === undefined) {
      const target = resolvePointer(document, ref)
      if (target === undefined) return {}
      const baseName = (ref.split('/').pop() ?? 'it').replaceAll(/[^A-Za-z0-9_.-]/g, '_') || 'it'
      name = uniqueName(baseName === '__proto__' ? 'proto' : baseName)
      names.set(ref, name)
      // Reserved before conversion, because the schema may contain itself.
      definitions[name] = {}
      definitions[name] = convert(target)
    }
    return { $ref: `#/$defs/${name}` }
  }

  function convert(schema: unknown): JsonSchema | boolean {
    if (typeof schema === 'boolean') return schema
    if (!isRecord(schema)) return {}
    const { $ref: ref } = schema
    if (typeof ref === 'string') {
      const siblings = isVersion30 ? {} : convertKeywords(schema)
      const target = createReference(ref)
      return Object.keys(siblings).length > 0 ? { ...siblings, ...target } : target
    }
    const converted = convertKeywords(schema)
    return isVersion30 && schema['nullable'] === true ? allowNull(converted) : converted
  }

  function convertKeywords(schema: Json): Record<string, unknown> {
    const result: Record<string, unknown> = {}
    for (const [key, value] of Object.entries(schema)) {
      if (DROPPED.has(key) || key.startsWith('x-')) continue
      const converted = key === 'required' ? convertRequired(value, schema['properties']) : convertKeyword(key, value)
      if (converted !== undefined) result[key] = converted
    }
    convertExclusiveLimit(result, 'minimum', 'exclusiveMinimum')
    convertExclusiveLimit(result, 'maximum', 'exclusiveMaximum')
    if (schema['examples'] === undefined && schema['example'] !== undefined) result['examples'] = [schema['example']]
    return result
  }

  /** @returns undefined for a keyword to leave out */
  function convertKeyword(key: string, value: unknown): unknown {
    if (key === 'properties' && isRecord(value)) return convertProperties(value)
    if (MAP_KEYWORDS.has(key) && isRecord(value)) return convertMap(value)
    if (LIST_KEYWORDS.has(key) && Array.isArray(value)) return value.map(convert)
    if (SCHEMA_KEYWORDS.has(key)) return convert(value)
    if (TEXTS.has(key) && typeof value === 'string') return toPrintable(value)
    // Some documents carry patterns of other languages.
    if (key === 'pattern' && !isRegexPattern(value)) return undefined
    if (key === 'examples' && !Array.isArray(value)) return undefined
    return value
  }

  /** @returns undefined if no visible property is required, or the value is not a list, such as `true` */
  function convertRequired(required: unknown, properties: unknown): readonly unknown[] | undefined {
    if (!Array.isArray(required)) return undefined
    if (!isRecord(properties)) return required
    const visible = required.filter((name) => !isHidden(properties[name]))
    return visible.length > 0 ? visible : undefined
  }

  const isHidden = (property: unknown): boolean => {
    if (!isRecord(property)) return false
    if (property[hiddenKeyword] === true) return true
    const target = typeof property['$ref'] === 'string' ? resolvePointer(document, property['$ref']) : undefined
    return isRecord(target) && target[hiddenKeyword] === true
  }
  const convertProperties = (properties: Json): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(properties).flatMap(([name, property]) => (isHidden(property) ? [] : [[name, convert(property)]])),
    )
  const convertMap = (schemas: Json): Record<string, unknown> =>
    Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, convert(schema)]))

  const resolveReference = (schema: unknown): JsonSchema => {
    let current: unknown = schema
    for (let hops = 0; hops < 50 && isRecord(current) && typeof current['$ref'] === 'string'; hops++) {
      const { $ref: ref, ...siblings } = current
      const target = definitions[String(ref).slice('#/$defs/'.length)]
      current = isRecord(target) ? { ...target, ...siblings } : {}
    }
    return asRecord(current)
  }

  const resolve = (schema: unknown): JsonSchema => mergeAllOf(resolveReference(schema), 0)
  const convertMerged = (schema: unknown): JsonSchema => resolve(convert(schema))

  function mergeAllOf(schema: JsonSchema, depth: number): JsonSchema {
    const { allOf, ...rest } = schema
    if (!Array.isArray(allOf) || depth > 10) return schema
    const parts = allOf.map((part) => mergeAllOf(resolveReference(part), depth + 1))
    const plainObjects = parts.every((part) => !['allOf', 'anyOf', 'oneOf', 'not', 'if'].some((key) => key in part))
    if (!plainObjects) return schema
    const schemas = [...parts, rest]
    const required = [...new Set(schemas.flatMap((part) => (Array.isArray(part['required']) ? part['required'] : [])))]
    const properties = Object.assign({}, ...schemas.map((part) => part['properties'] ?? {}))
    return {
      ...Object.assign({}, ...schemas),
      ...(Object.keys(properties).length > 0 ? { type: 'object', properties } : {}),
      ...(required.length > 0 ? { required } : {}),
    }
  }

  /** Merged schemas no longer refer to the definitions that they were made of. */
  function definitionsOf(schemas: unknown): Record<string, unknown> {
    const used = new Set<string>()
    const open = [schemas]
    while (open.length > 0) {
      const node = open.pop()
      if (typeof node !== 'object' || node === null) continue
      for (const child of Object.values(node)) open.push(child)
      const ref = isRecord(node) ? node['$ref'] : undefined
      const name = typeof ref === 'string' ? ref.slice('#/$defs/'.length) : ''
      if (!Object.hasOwn(definitions, name) || used.has(name)) continue
      used.add(name)
      open.push(definitions[name])
    }
    return Object.fromEntries(Object.entries(definitions).filter(([name]) => used.has(name)))
  }

  return { convert, convertMerged, resolve, definitionsOf }
}

/** OpenAPI 3.0 uses booleans where 2020-12 uses numbers. */
function convertExclusiveLimit(schema: Record<string, unknown>, limit: string, exclusive: string): void {
  const isExclusive = schema[exclusive]
  if (typeof isExclusive !== 'boolean') return
  if (isExclusive && schema[limit] !== undefined) {
    schema[exclusive] = schema[limit]
    delete schema[limit]
  } else delete schema[exclusive]
}

function allowNull(schema: Record<string, unknown>): JsonSchema {
  const { type, enum: values } = schema
  if (typeof type === 'string')
    return {
      ...schema,
      type: [type, 'null'],
      ...(Array.isArray(values) && !values.includes(null) ? { enum: [...values, null] } : {}),
    }
  const { title, description, default: defaultValue, examples, ...rest } = schema
  const annotations = omitUndefined({ title, description, default: defaultValue, examples })
  return Object.keys(rest).length === 0 ? annotations : { ...annotations, anyOf: [rest, { type: 'null' }] }
}
