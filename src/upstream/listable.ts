import { isRecord, type Json } from '../core/is-record.ts'
import { resolvePointer } from '../core/json-pointer.ts'
import { isRegexPattern } from '../core/regex-pattern.ts'
import type { JsonSchema } from '../core/schema.ts'
import { LIST_KEYWORDS, MAP_KEYWORDS, SCHEMA_KEYWORDS, SCHEMA_TYPES } from '../core/schema-keywords.ts'

/** Removes invalid decorations of a tool, because clients reject a whole list for one invalid entry. */
export const withoutUnlistable = (extra: Json): Json => omitInvalid(extra, DECORATIONS)

type Checks = Readonly<Record<string, (value: unknown) => boolean>>

/** The same object if all members are valid. */
function omitInvalid(entry: Json, checks: Checks): Json {
  const invalidKeys = Object.keys(entry).filter((key) => Object.hasOwn(checks, key) && !checks[key]?.(entry[key]))
  return invalidKeys.length === 0
    ? entry
    : Object.fromEntries(Object.entries(entry).filter(([key]) => !invalidKeys.includes(key)))
}

const isText = (value: unknown): boolean => value === undefined || typeof value === 'string'
const isHint = (value: unknown): boolean => value === undefined || typeof value === 'boolean'
const areTexts = (value: unknown): boolean => Array.isArray(value) && value.every((one) => typeof one === 'string')

const DECORATIONS: Checks = {
  _meta: isRecord,
  annotations: (value) =>
    isRecord(value) &&
    isText(value['title']) &&
    ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'].every((hint) => isHint(value[hint])),
  icons: (value) =>
    Array.isArray(value) &&
    value.every(
      (icon) =>
        isRecord(icon) &&
        typeof icon['src'] === 'string' &&
        isText(icon['mimeType']) &&
        (icon['sizes'] === undefined || areTexts(icon['sizes'])) &&
        (icon['theme'] === undefined || icon['theme'] === 'light' || icon['theme'] === 'dark'),
    ),
}

/**
 * The same for a prompt, resource or resource template; one without a name gets its address as name.
 * @param id that it is requested by
 * @returns undefined for a prompt that nobody could request
 */
export function listableEntry(entry: Json, id: string): Json | undefined {
  const { name, arguments: args } = entry
  if (id === 'name' && args !== undefined && !(Array.isArray(args) && args.every(isArgument))) return undefined
  const valid = omitInvalid(entry, ENTRY_MEMBERS)
  return typeof name === 'string' ? valid : { ...valid, name: entry[id] }
}

const isArgument = (one: unknown): boolean =>
  isRecord(one) &&
  typeof one['name'] === 'string' &&
  isText(one['title']) &&
  isText(one['description']) &&
  isHint(one['required'])

/** With seconds and a time zone, as clients require. */
const DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/
const isDate = (value: unknown): boolean =>
  typeof value === 'string' && DATE.test(value) && !Number.isNaN(Date.parse(value))
const isShare = (value: unknown): boolean => typeof value === 'number' && value >= 0 && value <= 1

const ENTRY_MEMBERS: Checks = {
  _meta: isRecord,
  icons: (value) => DECORATIONS['icons']?.(value) === true,
  title: isText,
  description: isText,
  mimeType: isText,
  size: Number.isFinite,
  annotations: (value) => {
    if (!isRecord(value)) return false
    const { audience = [], priority = 0, lastModified } = value
    const areRoles = Array.isArray(audience) && audience.every((one) => one === 'user' || one === 'assistant')
    return areRoles && isShare(priority) && (lastModified === undefined || isDate(lastModified))
  },
}

/** Why clients cannot use an object schema; undefined if they can. A missing type is filled in elsewhere. */
export function objectFault({ type, properties, required, $schema }: JsonSchema): string | undefined {
  if (type !== undefined && type !== 'object') return `is of ${JSON.stringify(type)?.slice(0, 60)}, not of an object`
  if (properties !== undefined && !(isRecord(properties) && Object.values(properties).every(isSchema)))
    return 'has properties that are not schemas'
  if (required !== undefined && !areTexts(required)) return 'has a required list that is not a list of names'
  return isText($schema) ? undefined : 'has a $schema that is not a string'
}

const isSchema = (value: unknown): boolean => typeof value === 'boolean' || isRecord(value)

/**
 * An output schema that clients can compile: they compile all schemas of a list at once, and one failure costs them
 * the list. Removes `$id`, because another server may use the same. Undefined if it cannot be compiled.
 */
export function toCompilable(schema: JsonSchema): JsonSchema | undefined {
  const { $id: _own, id: _older, ...rest } = schema
  if (objectFault(rest) !== undefined || !compiles(rest)) return undefined
  return '$id' in schema || 'id' in schema ? rest : schema
}

const isType = (value: unknown): boolean => SCHEMA_TYPES.has(value)
export const isFlag = (value: unknown): boolean => typeof value === 'boolean'
export const isString = (value: unknown): boolean => typeof value === 'string'
const isList = (value: unknown, fits: (one: unknown) => boolean): boolean => Array.isArray(value) && value.every(fits)

/** The values that each keyword may have. Clients that compile a schema fail for any other value. */
const VALUES: Checks = {
  ...Object.fromEntries(
    'multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength maxItems minItems maxContains minContains maxProperties minProperties'
      .split(' ')
      .map((key) => [key, Number.isFinite]),
  ),
  type: (value) => isType(value) || isList(value, isType),
  enum: (value) => Array.isArray(value) && value.length > 0,
  required: areTexts,
  dependentRequired: (value) => isRecord(value) && Object.values(value).every(areTexts),
  uniqueItems: isFlag,
  format: isString,
  pattern: isRegexPattern,
  patternProperties: (value) => isRecord(value) && Object.keys(value).every(isRegexPattern),
}
/** Keywords that define schemas for references from outside, or asynchronous checks. */
const UNSUPPORTED = ['id', '$dynamicAnchor', '$dynamicRef', '$recursiveAnchor', '$recursiveRef', '$async']

/** Keywords whose value is an object of schemas. `dependencies` may also have lists of names. */
export const SCHEMA_MAPS: ReadonlySet<string> = new Set([...MAP_KEYWORDS, 'dependencies'])

/** The caller limits the depth. */
function compiles(root: Json, node: unknown = root): boolean {
  if (typeof node === 'boolean') return true
  if (!isRecord(node)) return false
  const { $id, $anchor, $ref, nullable, type } = node
  return (
    (node === root || ($id === undefined && $anchor === undefined)) &&
    ($ref === undefined || (typeof $ref === 'string' && isValidPointer(root, $ref))) &&
    (nullable === undefined || (isFlag(nullable) && type !== undefined)) &&
    UNSUPPORTED.every((key) => node[key] === undefined) &&
    Object.entries(node).every(
      ([key, value]) =>
        value === undefined ||
        ((VALUES[key]?.(value) ?? true) && subschemasOf(root, key, value).every((one) => compiles(root, one))),
    )
  )
}

/** The schemas in a keyword's value; yields an invalid one if the value has the wrong type. */
function subschemasOf(root: Json, key: string, value: unknown): readonly unknown[] {
  if (key === 'items' && Array.isArray(value) && hasTuples(root)) return value
  if (SCHEMA_KEYWORDS.has(key)) return [value]
  if (LIST_KEYWORDS.has(key)) return Array.isArray(value) && value.length > 0 ? value : [null]
  if (!SCHEMA_MAPS.has(key)) return []
  if (!isRecord(value)) return [null]
  const inner = Object.values(value)
  return key === 'dependencies' ? inner.filter((one) => !areTexts(one)) : inner
}

/** In 2020-12, `items` is a single schema. */
const hasTuples = ({ $schema }: Json): boolean => typeof $schema === 'string' && !$schema.includes('2020-12')

/** True if a pointer leads to a schema. @param isEscaped whether it may contain the escapes of URLs; default false */
export const isValidPointer = (root: Json, ref: string, isEscaped = false): boolean =>
  isSchema(resolvePointer(root, ref, isEscaped))
