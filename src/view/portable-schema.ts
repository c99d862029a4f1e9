import { getOrInsert } from '../core/get-or-insert.ts'
import { isRecord } from '../core/is-record.ts'
import { resolvePointer } from '../core/json-pointer.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { JsonSchema } from '../core/schema.ts'
import { LIST_KEYWORDS, MAP_KEYWORDS, SCHEMA_KEYWORDS } from '../core/schema-keywords.ts'

/**
 * How much Pegboard changes listed schemas. `portable`: resolve references, remove rare formats, and add missing
 * `items`. `strict`: also merge alternatives at the top level into one object. `as-is`: change nothing.
 */
export type SchemaStyle = 'portable' | 'strict' | 'as-is'

/** Formats that strict providers accept. */
const FORMATS = new Set(['date', 'date-time', 'time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'])
/** Keywords that do not narrow a schema. Beside a reference, they can be merged into its target. */
const NOTES = new Set(['title', 'description', 'default', 'examples', 'example', 'deprecated', 'readOnly', 'writeOnly'])
const COMBINED = ['allOf', 'anyOf', 'oneOf'] as const
/** A reference stays if resolving it would make the schema larger than this. */
const MAX_NODES = 5_000

const adaptedSchemas = { portable: new WeakMap<object, JsonSchema>(), strict: new WeakMap<object, JsonSchema>() }

/** The schema as listed. Computed once for each schema object; the same object if nothing changes. */
export function portableSchema(schema: JsonSchema, style: SchemaStyle = 'portable'): JsonSchema {
  if (style === 'as-is') return schema
  return getOrInsert(adaptedSchemas[style], schema, () => {
    const plain = needsInlining(schema) ? inlineRefs(schema) : schema
    return style === 'strict' && hasAlternatives(plain) ? mergeAlternatives(plain) : plain
  })
}

/** True for a schema with alternatives at the top level. Some providers reject a whole request because of one. */
export const hasAlternatives = (schema: JsonSchema): boolean => COMBINED.some((key) => Array.isArray(schema[key]))

function needsInlining(root: JsonSchema): boolean {
  for (const node of schemasIn(root)) {
    const { $ref: ref, format } = node
    if (typeof ref === 'string' || (typeof format === 'string' && !FORMATS.has(format)) || lacksItems(node)) return true
  }
  return false
}

/** A schema and the schemas inside it, without those that it refers to. */
function* schemasIn(root: unknown): Iterable<JsonSchema> {
  const open = [root]
  while (open.length > 0) {
    const node = open.pop()
    if (!isSchema(node)) continue
    yield node
    for (const child of childrenOf(node)) open.push(child)
  }
}

const refsIn = (root: unknown): readonly string[] =>
  [...schemasIn(root)].flatMap(({ $ref: ref }) => (typeof ref === 'string' ? [ref] : []))

/** VS Code omits a tool with an array schema without `items`. An empty schema means the same. */
const lacksItems = ({ type, items }: JsonSchema): boolean =>
  items === undefined && (type === 'array' || (Array.isArray(type) && type.includes('array')))

function childrenOf(node: JsonSchema): unknown[] {
  return Object.entries(node).flatMap(([key, value]) =>
    MAP_KEYWORDS.has(key) && isSchema(value)
      ? Object.values(value)
      : LIST_KEYWORDS.has(key) && Array.isArray(value)
        ? value
        : SCHEMA_KEYWORDS.has(key)
          ? [value]
          : [],
  )
}

function inlineRefs(root: JsonSchema): JsonSchema {
  const circular = findCircularRefs(root)
  const remainingRefs = new Set<string>()
  let nodes = 0

  const inline = (node: unknown): unknown => {
    if (!isSchema(node)) return node
    nodes++
    const { $ref: ref } = node
    const target = typeof ref === 'string' ? resolvePointer(root, ref) : undefined
    if (typeof ref === 'string' && target !== undefined && !circular.has(ref)) {
      const { $ref: _ref, ...rest } = node
      const [inlined, siblings] = [inline(target), copy(rest)]
      if (Object.keys(rest).length === 0 || !isSchema(inlined)) return inlined
      return Object.entries(rest).every(([key, value]) => NOTES.has(key) || inlined[key] === value)
        ? { ...inlined, ...siblings }
        : { ...siblings, allOf: [inlined, ...(Array.isArray(siblings['allOf']) ? siblings['allOf'] : [])] }
    }
    if (typeof ref === 'string') remainingRefs.add(ref)
    return copy(node)
  }
  const copy = (node: JsonSchema): JsonSchema => {
    if (nodes > MAX_NODES) throw TOO_LARGE
    const next: Record<string, unknown> = {}
    for (const [key, value] of Object.entries(node)) {
      if (key === 'format' && typeof value === 'string' && !FORMATS.has(value)) continue
      if (MAP_KEYWORDS.has(key) && isSchema(value))
        next[key] = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, inline(one)]))
      else if (LIST_KEYWORDS.has(key) && Array.isArray(value)) next[key] = value.map(inline)
      else next[key] = SCHEMA_KEYWORDS.has(key) ? inline(value) : value
    }
    if (lacksItems(node)) next['items'] = {}
    return next
  }

  try {
    const { $defs, definitions, ...body } = root
    const whole = inline(body) as JsonSchema
    const stores = { ...(isSchema($defs) && { $defs }), ...(isSchema(definitions) && { definitions }) }
    const used: Record<string, unknown> = {}
    for (const [key, store] of Object.entries(stores)) {
      const found = findReferencedDefinitions(key, store, remainingRefs, inline)
      if (Object.keys(found).length > 0) used[key] = found
    }
    return { ...used, ...whole }
  } catch (error) {
    if (error !== TOO_LARGE) throw error
    return root
  }
}

const TOO_LARGE = new Error('written out it would be too large')

/** Definitions that references still name after inlining (recursive ones), and those with an anchor. */
function findReferencedDefinitions(
  key: string,
  store: JsonSchema,
  remainingRefs: ReadonlySet<string>,
  inline: (node: unknown) => unknown,
): Record<string, unknown> {
  const found: Record<string, unknown> = {}
  for (let more = true; more; ) {
    more = false
    for (const [name, definition] of Object.entries(store)) {
      if (Object.hasOwn(found, name)) continue
      const ref = `#/${key}/${escapePointer(name)}`
      const anchored = isSchema(definition) && ('$anchor' in definition || '$dynamicAnchor' in definition)
      const isReferenced = [...remainingRefs].some((one) => one === ref || one.startsWith(`${ref}/`))
      if (!anchored && !isReferenced) continue
      found[name] = inline(definition)
      more = true
    }
  }
  return found
}

/** References that lead back to themselves. */
function findCircularRefs(root: JsonSchema): ReadonlySet<string> {
  const edges = new Map<string, ReadonlySet<string>>()
  const refsBehind = (ref: string): ReadonlySet<string> =>
    getOrInsert(edges, ref, () => new Set(refsIn(resolvePointer(root, ref))))
  const reachableFrom = (refs: Iterable<string>): ReadonlySet<string> => {
    const reachable = new Set(refs)
    // The loop also visits what it adds.
    for (const ref of reachable) for (const next of refsBehind(ref)) reachable.add(next)
    return reachable
  }
  const all = [...reachableFrom(refsIn(root))]
  return new Set(all.filter((ref) => reachableFrom(refsBehind(ref)).has(ref)))
}

const escapePointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

/**
 * One object for all alternatives: it has all of their properties, and requires those that each of them requires. It
 * accepts more than the tool, which still checks.
 */
function mergeAlternatives(schema: JsonSchema): JsonSchema {
  const { allOf, anyOf, oneOf, ...base } = schema
  const parts: JsonSchema[] = []
  const all = Array.isArray(allOf) ? allOf.filter(isSchema).map(mergeAlternatives) : []
  parts.push(base, ...all)
  const required = new Set(parts.flatMap(requiredOf))
  for (const choice of [anyOf, oneOf]) {
    if (!Array.isArray(choice)) continue
    const options = choice.filter(isSchema).map(mergeAlternatives)
    const [first, ...others] = options.map((option) => new Set(requiredOf(option)))
    for (const name of first ?? []) if (others.every((other) => other.has(name))) required.add(name)
    parts.push(...options)
  }
  const properties: Record<string, unknown> = {}
  for (const part of parts)
    for (const [name, one] of Object.entries(isSchema(part['properties']) ? part['properties'] : {}))
      properties[name] = Object.hasOwn(properties, name) ? combineProperty(properties[name], one) : one
  const { required: _required, additionalProperties, ...rest } = base
  return {
    ...rest,
    type: 'object',
    properties,
    // One alternative may allow what another forbids.
    ...(parts.length === 1 ? omitUndefined({ additionalProperties }) : {}),
    ...(required.size > 0 ? { required: [...required] } : {}),
  }
}

const requiredOf = (schema: JsonSchema): string[] =>
  Array.isArray(schema['required']) ? schema['required'].filter((name) => typeof name === 'string') : []

function combineProperty(a: unknown, b: unknown): unknown {
  if (JSON.stringify(a) === JSON.stringify(b)) return a
  const alternatives = isSchema(a) && Array.isArray(a['anyOf']) && Object.keys(a).length === 1 ? a['anyOf'] : [a]
  return alternatives.some((one) => JSON.stringify(one) === JSON.stringify(b)) ? a : { anyOf: [...alternatives, b] }
}

const isSchema = (value: unknown): value is JsonSchema => isRecord(value)
