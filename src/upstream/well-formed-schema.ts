import { isRecord } from '../core/is-record.ts'
import { isRegexPattern } from '../core/regex-pattern.ts'
import type { JsonSchema } from '../core/schema.ts'
import { LIST_KEYWORDS, SCHEMA_KEYWORDS, SCHEMA_TYPES } from '../core/schema-keywords.ts'
import { isFlag, isString, isValidPointer, SCHEMA_MAPS } from './listable.ts'

type Is = (value: unknown) => boolean

const isNumber: Is = (value) => Number.isFinite(value)
const isCount: Is = (value) => Number.isInteger(value) && (value as number) >= 0
const isSchema: Is = (value) => isFlag(value) || isRecord(value)
const isList =
  (is: Is, least: number): Is =>
  (value) =>
    Array.isArray(value) && value.length >= least && value.every(is)
const isMap =
  (is: Is): Is =>
  (value) =>
    isRecord(value) && Object.values(value).every(is)
const isUnique: Is = (value) => Array.isArray(value) && new Set(value).size === value.length
const areNames: Is = (value) => isList(isString, 0)(value) && isUnique(value)

const each = (names: string, is: Is): ReadonlyArray<readonly [string, Is]> => names.split(' ').map((name) => [name, is])

/** Checks for the value of each keyword, in the newest draft and in older ones that servers still use. */
const KEYWORDS: ReadonlyMap<string, Is> = new Map([
  ...each('type', (value) =>
    Array.isArray(value)
      ? isList((one) => SCHEMA_TYPES.has(one), 1)(value) && isUnique(value)
      : SCHEMA_TYPES.has(value),
  ),
  ...each(
    'enum',
    isList(() => true, 1),
  ),
  ...each('multipleOf', (value) => isNumber(value) && (value as number) > 0),
  ...each('maximum exclusiveMaximum minimum exclusiveMinimum', isNumber),
  ...each('maxLength minLength maxItems minItems maxProperties minProperties maxContains minContains', isCount),
  ...each('pattern', isRegexPattern),
  ...each('format title description $comment contentEncoding contentMediaType $ref $dynamicRef', isString),
  ...each('$id id', (value) => isString(value) && !(value as string).includes('#')),
  ...each('$anchor $dynamicAnchor', (value) => isString(value) && /^[A-Za-z_][-\w.]*$/.test(value as string)),
  ...each('uniqueItems deprecated readOnly writeOnly nullable', isFlag),
  ...each('examples', Array.isArray),
  ...each('required', areNames),
  ...each('allOf anyOf oneOf prefixItems', isList(isSchema, 1)),
  ...each('properties $defs definitions dependentSchemas', isMap(isSchema)),
  ...each('patternProperties', (value) => isMap(isSchema)(value) && Object.keys(value as object).every(isRegexPattern)),
  ...each('dependentRequired', isMap(areNames)),
  ...each(
    'dependencies',
    isMap((one) => isSchema(one) || areNames(one)),
  ),
  ...each('items', (value) => isSchema(value) || isList(isSchema, 1)(value)),
  ...each(
    'additionalProperties additionalItems unevaluatedProperties unevaluatedItems contains propertyNames not if then else contentSchema',
    isSchema,
  ),
  ...each('$vocabulary', isMap(isFlag)),
])

const ITSELF: ReadonlySet<string> = new Set([...SCHEMA_KEYWORDS, ...LIST_KEYWORDS, 'contentSchema'])

/**
 * An object schema without keywords that have invalid values, such as `minimum: "1"` or `enum: {}`, because one of
 * them makes strict clients and providers reject the whole list. The server still validates. Also adds a missing
 * type, and writes `true` and `false` subschemas as objects. Returns the same object if nothing changes. The caller
 * limits the depth.
 */
export function wellFormed(schema: JsonSchema): JsonSchema {
  const root = cleanSchema(schema, schema)
  const { properties } = root
  const isPlain = !isRecord(properties) || !Object.values(properties).some(isFlag)
  if (root['type'] !== undefined && isPlain) return root
  return {
    type: 'object',
    ...root,
    ...(isPlain
      ? {}
      : {
          properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, writeSubschema(one)])),
        }),
  }
}

const writeSubschema = (one: unknown): unknown => (one === true ? {} : one === false ? { not: {} } : one)

function cleanSchema(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let next: Record<string, unknown> | undefined
  for (const [key, value] of Object.entries(schema)) {
    const isValid = KEYWORDS.get(key)
    const uniqueValue = key === 'required' && isList(isString, 0)(value) ? unique(value as readonly unknown[]) : value
    // `nullable` needs a type beside it; a local reference needs its target.
    const isMeaningless =
      (key === 'nullable' && schema['type'] === undefined) || (key === '$ref' && leadsNowhere(root, uniqueValue))
    if (isMeaningless || (isValid && !isValid(uniqueValue))) {
      next ??= { ...schema }
      delete next[key]
      continue
    }
    const cleaned = SCHEMA_MAPS.has(key)
      ? cleanMap(uniqueValue as JsonSchema, root)
      : ITSELF.has(key)
        ? cleanPart(uniqueValue, root)
        : uniqueValue
    if (cleaned === value) continue
    next ??= { ...schema }
    next[key] = cleaned
  }
  return next ?? schema
}

/** A subschema, a list of subschemas, or property names of a dependency. */
function cleanPart(value: unknown, root: JsonSchema): unknown {
  if (isRecord(value)) return cleanSchema(value, root)
  if (!Array.isArray(value)) return value
  const cleaned = value.map((one) => (isRecord(one) ? cleanSchema(one, root) : one))
  return cleaned.some((one, at) => one !== value[at]) ? cleaned : value
}

function cleanMap(values: JsonSchema, root: JsonSchema): JsonSchema {
  const entries = Object.entries(values).map(([name, one]) => [name, cleanPart(one, root)] as const)
  return entries.some(([name, one]) => one !== values[name]) ? Object.fromEntries(entries) : values
}

function leadsNowhere(root: JsonSchema, ref: unknown): boolean {
  if (typeof ref !== 'string' || !ref.startsWith('#/')) return false
  return !isValidPointer(root, ref) && !isValidPointer(root, ref, true)
}

const unique = (values: readonly unknown[]): readonly unknown[] =>
  new Set(values).size === values.length ? values : [...new Set(values)]
