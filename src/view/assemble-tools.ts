import { isDeepStrictEqual } from 'node:util'
import type { Caller } from '../core/caller.ts'
import { formatCount } from '../core/format-count.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import type { Profile } from '../core/profile.ts'
import type { JsonSchema, Schema } from '../core/schema.ts'
import type { Draft, NameOf, Tool } from '../core/tool.ts'
import { createFailedCheck, type HiddenReason } from './visibility.ts'

/** The definition of a tool for a caller, or why the tool is hidden. A variant that accepts more than the tool's schema hides it. */
export function assemble(
  tool: Tool,
  caller: Caller,
  nameOf: NameOf,
  profile: Profile,
): { readonly draft: Draft } | { readonly hidden: HiddenReason } {
  try {
    const draft = tool.assemble(caller, nameOf, profile)
    if (!draft) {
      const setting = `what it needs is not set in modules.${tool.module}.config`
      const reason = tool.origin === 'module' ? setting : 'nothing it needs is configured for this caller'
      return { hidden: { kind: 'unavailable', stage: 'assembly', reason } }
    }
    if (draft !== tool) {
      if (typeof draft.description !== 'string') throw new TypeError('assemble returned no description')
      const wider = getWidening(tool.input, draft.input)
      if (wider !== undefined)
        throw new TypeError(`assemble returned a schema that accepts more than the tool: ${wider}`)
    }
    return { draft }
  } catch (error) {
    return { hidden: createFailedCheck('assembly', error) }
  }
}

const compared = new WeakMap<Schema, { readonly base: Schema; readonly wider: string | undefined }>()

/** The same as `findWidening`, computed once for each variant. */
function getWidening(base: Schema, variant: Schema): string | undefined {
  if (base === variant) return undefined
  const cached = compared.get(variant)
  if (cached?.base === base) return cached.wider
  const wider = findWidening(base.json, variant.json)
  compared.set(variant, { base, wider })
  return wider
}

/** What a variant of a schema accepts that the schema does not, as a sentence; `undefined` if it only narrows. */
export function findWidening(base: unknown, variant: unknown, path = ''): string | undefined {
  if (variant === false || base === true || isDeepStrictEqual(base, variant)) return undefined
  const at = path || 'the whole'
  if (!isRecord(base) || !isRecord(variant)) return `${at} accepts more`
  const differing =
    NOT_COMPARED.find((key) => !isDeepStrictEqual(base[key], variant[key])) ??
    DEFINITIONS.find((key) => !isPartOf(variant[key], base[key]))
  if (differing) return `${at} has another ${differing}, which cannot be compared`
  return (
    findWiderBranch(base, variant, path) ??
    findWiderType(base, variant, at) ??
    findWiderValue(base, variant, at) ??
    findWiderBound(base, variant, at) ??
    findWiderProperty(base, variant, path) ??
    ('items' in base ? findWidening(base['items'], variant['items'] ?? {}, `${path}[]`) : undefined)
  )
}

/** Keywords that are not compared. They must be equal. */
const NOT_COMPARED = [
  '$ref',
  'allOf',
  'not',
  'if',
  'then',
  'else',
  'dependentRequired',
  'dependentSchemas',
  'patternProperties',
  'propertyNames',
  'contains',
  'prefixItems',
  'unevaluatedProperties',
  'unevaluatedItems',
]

const DEFINITIONS = ['$defs', 'definitions']

const isPartOf = (part: unknown, whole: unknown): boolean =>
  !isRecord(part) ||
  Object.entries(part).every(([key, value]) => isRecord(whole) && isDeepStrictEqual(value, whole[key]))

const branchesOf = (schema: JsonSchema): readonly unknown[] | undefined => {
  const branches = schema['anyOf'] ?? schema['oneOf']
  return Array.isArray(branches) ? branches : undefined
}

function findWiderBranch(base: JsonSchema, variant: JsonSchema, path: string): string | undefined {
  const baseBranches = branchesOf(base)
  if (!baseBranches) {
    const findings = branchesOf(variant)?.map((branch) =>
      findWidening(base, { ...variant, ...(branch as object), ...NO_BRANCHES }, path),
    )
    return findings?.find((one) => one !== undefined)
  }
  const variantBranches = branchesOf(variant) ?? [variant]
  const extra = variantBranches.find((branch) =>
    baseBranches.every((other) => findWidening(other, branch, path) !== undefined),
  )
  return extra === undefined ? undefined : `${path || 'the whole'} has an alternative that the tool does not have`
}

const NO_BRANCHES = { anyOf: undefined, oneOf: undefined }

function typesOf(schema: JsonSchema): readonly string[] | undefined {
  const { type } = schema
  if (typeof type === 'string') return [type]
  if (Array.isArray(type)) return type as string[]
  return valuesOf(schema)?.map(typeOfValue)
}

const typeOfValue = (value: unknown): string =>
  value === null
    ? 'null'
    : Array.isArray(value)
      ? 'array'
      : Number.isInteger(value)
        ? 'integer'
        : (typeof value as string)

const isWithin = (type: string, types: readonly string[]): boolean =>
  types.includes(type) || (type === 'integer' && types.includes('number'))

function findWiderType(base: JsonSchema, variant: JsonSchema, at: string): string | undefined {
  const types = typesOf(base)
  if (!types || branchesOf(variant)) return undefined
  const variantTypes = typesOf(variant)
  if (variantTypes?.every((type) => isWithin(type, types))) return undefined
  return `${at} has another type (${variantTypes?.join(', ') ?? 'any'}, not ${types.join(', ')})`
}

const valuesOf = (schema: JsonSchema): readonly unknown[] | undefined =>
  'const' in schema ? [schema['const']] : Array.isArray(schema['enum']) ? schema['enum'] : undefined

function findWiderValue(base: JsonSchema, variant: JsonSchema, at: string): string | undefined {
  const values = valuesOf(base)
  if (!values || branchesOf(variant)) return undefined
  const variantValues = valuesOf(variant)
  if (!variantValues) return `${at} is no longer one of ${formatCount(values.length, 'value')}`
  const extra = variantValues.find((value) => !values.some((other) => isDeepStrictEqual(value, other)))
  return extra === undefined ? undefined : `${at} has the value ${JSON.stringify(extra)}, which the tool does not have`
}

const UPPER = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']
const LOWER = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']
const EXACT = ['pattern', 'format', 'multipleOf', 'uniqueItems']

function findWiderBound(base: JsonSchema, variant: JsonSchema, at: string): string | undefined {
  // The tool itself checks single values.
  if (valuesOf(variant) || branchesOf(variant)) return undefined
  const wider =
    UPPER.find((key) => typeof base[key] === 'number' && !(Number(variant[key]) <= base[key])) ??
    LOWER.find((key) => typeof base[key] === 'number' && !(Number(variant[key]) >= base[key])) ??
    EXACT.find((key) => base[key] !== undefined && base[key] !== false && base[key] !== variant[key])
  return wider && `${at} has another ${wider}`
}

function findWiderProperty(base: JsonSchema, variant: JsonSchema, path: string): string | undefined {
  const properties = asRecord(base['properties'])
  const variantProperties = asRecord(variant['properties'])
  // A variant may declare properties if the tool's schema declares none.
  const isFree = Object.keys(properties).length === 0 && base['additionalProperties'] !== false
  for (const [name, schema] of Object.entries(variantProperties)) {
    const inner = path === '' ? name : `${path}.${name}`
    if (Object.hasOwn(properties, name)) {
      const wider = findWidening(properties[name], schema, inner)
      if (wider !== undefined) return wider
    } else if (!isFree) return `${inner} is a parameter that the tool does not have`
  }
  const required = (variant['required'] ?? []) as readonly unknown[]
  const dropped = ((base['required'] ?? []) as readonly string[]).find((name) => !required.includes(name))
  if (dropped !== undefined) return `${path === '' ? dropped : `${path}.${dropped}`} is no longer required`
  const additional = variant['additionalProperties'] ?? true
  if (base['additionalProperties'] === undefined || typesOf(variant)?.includes('object') !== true) return undefined
  return (
    findWidening(base['additionalProperties'], additional, `${path}.*`) &&
    `${path || 'the whole'} takes further parameters`
  )
}
