import { isRecord } from '../core/record.ts'
import type { JsonSchema } from '../core/schema.ts'

type Json = Readonly<Record<string, unknown>>

/** Clients drop a whole list for one entry that is not as the protocol says. What decorates a tool is left out instead. */
export function withoutUnlistable(extra: Json): Json {
  const bad = Object.keys(extra).filter((key) => Object.hasOwn(DECORATIONS, key) && !DECORATIONS[key]?.(extra[key]))
  return bad.length === 0 ? extra : Object.fromEntries(Object.entries(extra).filter(([key]) => !bad.includes(key)))
}

const isText = (value: unknown): boolean => value === undefined || typeof value === 'string'
const isHint = (value: unknown): boolean => value === undefined || typeof value === 'boolean'
const areTexts = (value: unknown): boolean => Array.isArray(value) && value.every((one) => typeof one === 'string')

const DECORATIONS: Readonly<Record<string, (value: unknown) => boolean>> = {
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
 * The same for a prompt, a resource or a template of one; without a name it has that of its address.
 * @param id what it is asked for by
 * @returns undefined for a prompt that nobody could be asked for
 */
export function listableEntry(entry: Json, id: string): Json | undefined {
  const { name, arguments: asked } = entry
  if (id === 'name' && asked !== undefined && !(Array.isArray(asked) && asked.every(isArgument))) return undefined
  const bad = Object.keys(entry).filter((key) => Object.hasOwn(BESIDES, key) && !BESIDES[key]?.(entry[key]))
  if (bad.length === 0 && typeof name === 'string') return entry
  const own = Object.fromEntries(Object.entries(entry).filter(([key]) => !bad.includes(key)))
  return { ...own, name: typeof name === 'string' ? name : entry[id] }
}

const isArgument = (one: unknown): boolean =>
  isRecord(one) &&
  typeof one['name'] === 'string' &&
  isText(one['title']) &&
  isText(one['description']) &&
  isHint(one['required'])

/** With seconds and a zone, as clients want it. */
const DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/
const isDate = (value: unknown): boolean =>
  typeof value === 'string' && DATE.test(value) && !Number.isNaN(Date.parse(value))
const isShare = (value: unknown): boolean => typeof value === 'number' && value >= 0 && value <= 1

const BESIDES: typeof DECORATIONS = {
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

/** Why clients could not read a schema of an object, if they could not. One without a type is given it. */
export function objectFault({ type, properties, required, $schema }: JsonSchema): string | undefined {
  if (type !== undefined && type !== 'object') return `is of ${JSON.stringify(type)?.slice(0, 60)}, not of an object`
  if (properties !== undefined && !(isRecord(properties) && Object.values(properties).every(isSchema)))
    return 'has properties that are no schemas'
  if (required !== undefined && !areTexts(required)) return 'requires what has no name'
  return isText($schema) ? undefined : 'is of a dialect without a name'
}

const isSchema = (value: unknown): boolean => typeof value === 'boolean' || isRecord(value)

/**
 * A schema of results as clients can use it: they compile all of a list at once, and one they cannot compile costs them the
 * list. Its `$id` goes, as another server may have the same. Undefined where it could not be compiled.
 */
export function compilable(schema: JsonSchema): JsonSchema | undefined {
  const { $id: _own, id: _older, ...rest } = schema
  if (objectFault(rest) !== undefined || !compiles(rest)) return undefined
  return '$id' in schema || 'id' in schema ? rest : schema
}

const TYPES = new Set<unknown>(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'])
const ONE =
  'items additionalItems contains additionalProperties propertyNames not if then else unevaluatedItems unevaluatedProperties'.split(
    ' ',
  )
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const NAMED = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']

/** Its depth is bounded by whoever took it in. */
function compiles(root: Json, node: unknown = root): boolean {
  if (typeof node === 'boolean') return true
  if (!isRecord(node)) return false
  const { type, $ref, pattern, patternProperties, enum: values } = node
  const inner = [
    ...ONE.filter((key) => node[key] !== undefined).map((key) => node[key]),
    ...LISTS.flatMap((key) => (node[key] === undefined ? [] : node[key])),
    ...NAMED.flatMap((key) => (node[key] === undefined ? [] : isRecord(node[key]) ? Object.values(node[key]) : [null])),
  ]
  return (
    (node === root || (node['$id'] === undefined && node['$anchor'] === undefined)) &&
    node['$dynamicRef'] === undefined &&
    (type === undefined || (Array.isArray(type) ? type.every((one) => TYPES.has(one)) : TYPES.has(type))) &&
    ($ref === undefined || (typeof $ref === 'string' && leads(root, $ref))) &&
    (values === undefined || (Array.isArray(values) && values.length > 0)) &&
    (node['required'] === undefined || areTexts(node['required'])) &&
    (pattern === undefined || isPattern(pattern)) &&
    (patternProperties === undefined ||
      (isRecord(patternProperties) && Object.keys(patternProperties).every(isPattern))) &&
    inner.every((one) => (Array.isArray(one) ? one.every((item) => compiles(root, item)) : compiles(root, one)))
  )
}

export function isPattern(value: unknown): boolean {
  if (typeof value !== 'string') return false
  try {
    return new RegExp(value, 'u') !== undefined
  } catch {
    return false
  }
}

/** Whether a pointer into the schema leads to something. */
function leads(root: Json, ref: string): boolean {
  if (ref === '#') return true
  if (!ref.startsWith('#/')) return false
  let at: unknown = root
  for (const part of ref.slice(2).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return false
    at = (at as Json)[key]
  }
  return isSchema(at)
}
