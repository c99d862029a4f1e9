import { PegboardError } from '../core/errors.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import { describeUnknownName } from '../core/issue-phrases.ts'
import { emptyObject, type Issue, isStandardSchema, type JsonSchema, type Schema, toSchema } from '../core/schema.ts'
import { describeSettingError } from '../core/setting-error.ts'
import { checkSchema } from './check-schema.ts'
import { createShapeError } from './shape-error.ts'

/** Names that frameworks use for the context. Reserved, so that a client cannot pass one. */
const CONTEXT_NAMES = ['ctx', 'env', '_ctx']

export interface ClosedSchema extends Schema {
  /** Parameters that are accepted but not listed. */
  readonly hidden: Readonly<Record<string, JsonSchema>>
}

/**
 * The listed schema and its validator. The schema is closed unless its author opened it, and omits hidden parameters,
 * which the validator accepts.
 */
export function closeSchema(schema: unknown, hidden: readonly string[], id: string): ClosedSchema {
  const base = schema === undefined ? emptyObject : convertSchema(copyDeep(schema), `the input of ${id}`)
  const { json } = base
  const properties = asRecord(json['properties'])
  const required = (json['required'] ?? []) as readonly string[]
  checkNames(properties, required, hidden, id)
  const isOpen = acceptsMoreNames(json)
  const isListed = (name: string): boolean => !hidden.includes(name)
  const listedNames = Object.keys(properties).filter(isListed)
  // zod fills its own defaults; for a raw JSON Schema, Pegboard does it.
  const defaults = isStandardSchema(schema) ? {} : defaultsOf(properties)
  const ignoredNames = new Set([...CONTEXT_NAMES, ...hidden])

  return {
    json: {
      ...json,
      properties: Object.fromEntries(listedNames.map((name) => [name, properties[name]])),
      ...(required.length > 0 ? { required: required.filter(isListed) } : {}),
      additionalProperties: isOpen ? (json['additionalProperties'] ?? true) : false,
    },
    hidden: Object.fromEntries(
      hidden.flatMap((name) => (isRecord(properties[name]) ? [[name, properties[name]]] : [])),
    ),
    parse(value) {
      if (!isRecord(value)) return { ok: false, issues: [{ path: '', message: 'must be an object' }] }
      const input: Record<string, unknown> = { ...structuredClone(defaults), ...value }
      const unknownNames: string[] = []
      for (const name of Object.keys(input)) {
        if (Object.hasOwn(properties, name)) continue
        if (ignoredNames.has(name)) delete input[name]
        else if (!isOpen) unknownNames.push(name)
      }
      if (unknownNames.length === 0) return base.parse(input)
      for (const name of unknownNames) delete input[name]
      const unknownIssues = unknownNames.map((name) => ({
        path: '',
        message: describeUnknownName('parameter', name, listedNames, 'the tool takes none'),
      }))
      // A caller with a misspelled parameter usually lacks the right one, so the error names both.
      const isGiven = (name: string): boolean => Object.hasOwn(properties, name) && Object.hasOwn(value, name)
      const absentNames = required.filter((name) => !isGiven(name))
      return { ok: false, issues: [...unknownIssues, ...findMissing(base, input, absentNames)] }
    },
  }
}

/** @throws PegboardError E_MODULE_SHAPE for a parameter that no client could use */
function checkNames(
  properties: Readonly<Record<string, unknown>>,
  required: readonly string[],
  hidden: readonly string[],
  id: string,
): void {
  if (Object.hasOwn(properties, 'ctx'))
    throw createShapeError(`the input of ${id} has a parameter called ctx, which is the name of the context`)
  const requiredHidden = hidden.find((name) => required.includes(name) && !isDefaulted(properties[name]))
  if (requiredHidden) throw createShapeError(`the hidden parameter ${requiredHidden} of ${id} must be optional`)
}

const acceptsMoreNames = (json: JsonSchema): boolean =>
  isRecord(json['additionalProperties']) || json['additionalProperties'] === true || isRecord(json['patternProperties'])

/** The absent parameters that the input needs in order to be valid. */
function findMissing(schema: Schema, input: unknown, absentNames: readonly string[]): readonly Issue[] {
  const checked = schema.parse(input)
  if (checked.ok) return []
  return absentNames
    .filter((name) => checked.issues.some(({ path }) => path === name))
    .map((name) => ({ path: name, message: 'is missing' }))
}

function defaultsOf(properties: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const pairs = Object.entries(properties).filter(([, schema]) => isDefaulted(schema))
  return Object.fromEntries(pairs.map(([name, schema]) => [name, (schema as JsonSchema)['default']]))
}

const isDefaulted = (schema: unknown): boolean => isRecord(schema) && schema['default'] !== undefined

/** A copy, because the validator writes into schemas and cannot write into a frozen one. */
const copyDeep = <T>(schema: T): T =>
  Object.isFrozen(schema) && !isStandardSchema(schema) ? structuredClone(schema) : schema

/** @throws PegboardError E_MODULE_SHAPE */
export function convertSchema(source: unknown, place: string): Schema {
  const schema = toSchema(source, describeSettingError)
  let json: JsonSchema
  try {
    json = schema.json
  } catch (error) {
    throw new PegboardError('E_MODULE_SHAPE', `${place} has no JSON Schema.`, { cause: error })
  }
  checkSchema(json, place)
  if (json['type'] !== 'object') throw createShapeError(`${place} must be an object at its root`)
  return schema
}
