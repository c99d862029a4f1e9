import { asRecord, isRecord } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { JsonSchema } from '../core/schema.ts'
import { portableSchema } from '../view/portable-schema.ts'

/** The subset of OpenAPI 3.0 schemas that Gemini's function declarations accept. */
export interface GeminiSchema {
  type?: 'STRING' | 'NUMBER' | 'INTEGER' | 'BOOLEAN' | 'ARRAY' | 'OBJECT'
  nullable?: true
  properties?: Record<string, GeminiSchema>
  items?: GeminiSchema
  anyOf?: GeminiSchema[]
  enum?: string[]
  [key: string]: unknown
}

const TYPES = {
  string: 'STRING',
  number: 'NUMBER',
  integer: 'INTEGER',
  boolean: 'BOOLEAN',
  array: 'ARRAY',
  object: 'OBJECT',
} as const
/** Keywords that are copied. Gemini rejects the whole request for any other. */
const KEPT: readonly string[] = [
  'title',
  'description',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
]
const MAX_DEPTH = 32

/**
 * Converts a JSON Schema for Gemini; the result accepts at least what the original accepts. Top-level alternatives
 * become one object, `oneOf` becomes `anyOf`, `const` becomes a one-value `enum`, `["string", "null"]` becomes a
 * nullable string, `allOf` is merged. References, conditions, `not`, defaults, `additionalProperties`, rare formats
 * and non-string enums are dropped. The tool still validates its arguments.
 */
export const geminiSchema = (schema: JsonSchema): GeminiSchema => convert(portableSchema(schema, 'strict'), 0)

function convert(given: unknown, depth: number): GeminiSchema {
  if (!isRecord(given) || depth > MAX_DEPTH) return {}
  const schema = mergeAllOf(given)
  const out: GeminiSchema = {}
  const types = Array.isArray(schema['type']) ? schema['type'].map(String) : [String(schema['type'])]
  const knownTypes = types.flatMap((one) => (Object.hasOwn(TYPES, one) ? [TYPES[one as keyof typeof TYPES]] : []))
  if (types.includes('null')) out.nullable = true
  for (const key of KEPT) if (schema[key] !== undefined) out[key] = schema[key]
  if (isRecord(schema['properties']) && Object.keys(schema['properties']).length > 0)
    return { ...out, ...objectOf(schema, schema['properties'], depth) }

  const options = [schema['anyOf'], schema['oneOf']].find(Array.isArray) as readonly unknown[] | undefined
  if (options) return eitherOf(out, options, depth)
  if (knownTypes.length > 1)
    return eitherOf(
      out,
      types.map((type) => ({ ...schema, type })),
      depth,
    )
  const [type] = knownTypes
  if (type) out.type = type
  if (type === 'STRING' && schema['format'] === 'date-time') out['format'] = 'date-time'
  const values = schema['const'] === undefined ? schema['enum'] : [schema['const']]
  // Gemini rejects an empty string too.
  if (Array.isArray(values) && values.every((value) => typeof value === 'string' && value !== '')) {
    out.type = 'STRING'
    out.enum = values
  }
  if (out.type === 'ARRAY') out.items = convert(asRecord(schema['items']), depth + 1)
  return out
}

function objectOf({ required }: JsonSchema, properties: JsonSchema, depth: number): GeminiSchema {
  const entries = Object.entries(properties).map(([name, one]) => [name, convert(one, depth + 1)])
  const there = Array.isArray(required) ? required.filter((name) => Object.hasOwn(properties, String(name))) : []
  return {
    type: 'OBJECT',
    properties: Object.fromEntries(entries),
    ...(there.length > 0 ? { required: there } : {}),
  }
}

/**
 * `null` among alternatives becomes `nullable`, and a single remaining alternative replaces the list. Gemini allows
 * nothing beside `anyOf`.
 */
function eitherOf(out: GeminiSchema, options: readonly unknown[], depth: number): GeminiSchema {
  const others = options.filter((one) => !(isRecord(one) && one['type'] === 'null'))
  const { title, description } = out
  const nullable = out.nullable || others.length < options.length ? { nullable: true as const } : {}
  const converted = others.map((one) => ({
    ...omitUndefined({ title, description }),
    ...convert(one, depth + 1),
    ...nullable,
  }))
  return converted.length === 1 && converted[0] ? converted[0] : { anyOf: converted }
}

function mergeAllOf(schema: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { allOf, ...base } = schema
  if (!Array.isArray(allOf)) return schema
  const parts = [base, ...allOf.filter(isRecord).map(mergeAllOf)]
  const properties = Object.assign({}, ...parts.map((part) => asRecord(part['properties'])))
  const required = parts.flatMap((part) => (Array.isArray(part['required']) ? part['required'] : []))
  return {
    ...Object.assign({}, ...parts.toReversed()),
    ...(Object.keys(properties).length > 0 ? { properties } : {}),
    ...(required.length > 0 ? { required: [...new Set(required)] } : {}),
  }
}
