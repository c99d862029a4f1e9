import { appendSentence } from '../core/append-sentence.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { toPrintable } from '../core/printable.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { Example } from '../core/tool.ts'
import { lookUp } from './api-document.ts'
import { FORM, isJson, isText, MULTIPART } from './media-types.ts'
import { type Part, planPart } from './multipart.ts'
import { type Converter, createConverter } from './operation-schema.ts'
import { descriptionOf, findOperation, listParameters, type OperationRecord, placeholdersIn } from './operations.ts'

export type ParameterLocation = 'path' | 'query' | 'header' | 'cookie'

/** Where an argument goes in the request. */
export interface Parameter {
  readonly argument: string
  readonly in: ParameterLocation
  readonly name: string
  readonly style: string
  readonly explode: boolean
  readonly required: boolean
  readonly allowReserved: boolean
  /** Serialized as JSON. */
  readonly json: boolean
  /** Slashes in the value separate path segments. */
  readonly segments: boolean
}

export interface RequestBody {
  readonly contentType: string
  /** The body's fields by argument; undefined if a single argument, `bodyArgument`, is the body. */
  readonly fields?: ReadonlyMap<string, string>
  readonly bodyArgument?: string
  readonly required: boolean
  /** How single form fields are serialized. */
  readonly encoding: Json
  /** The same for fields of a multipart body that the schema names. */
  readonly parts: ReadonlyMap<string, Part>
  /** `bodyArgument` is base64. */
  readonly isBase64: boolean
}

export interface RequestPlan {
  readonly parameters: readonly Parameter[]
  readonly body?: RequestBody
  readonly accept: string
  readonly servers: readonly unknown[]
  /** Alternative sets of security schemes with their scopes; undefined if the document has none. */
  readonly security: readonly Readonly<Record<string, readonly string[]>>[] | undefined
}

/** The parts of an operation that are built on first use. */
export interface OperationDefinition {
  /** Absent if nothing is known about the operation. */
  readonly description?: string
  readonly input: JsonSchema
  /** Arguments that must be set if another one is set. Not in the listed schema, because some providers reject it. */
  readonly dependentRequired?: Readonly<Record<string, readonly string[]>>
  readonly output: JsonSchema | undefined
  readonly examples: readonly Example[]
  readonly plan: RequestPlan
  /** The operation cannot be called: its schema is too large, too deep or invalid. */
  readonly unusable?: boolean
}

export const LOCATIONS: readonly ParameterLocation[] = ['path', 'query', 'header', 'cookie']
const OWN_HEADERS = new Set(['accept', 'content-type', 'authorization', 'content-length', 'host', 'cookie'])

export function defineOperation(document: Json, record: OperationRecord): OperationDefinition {
  const { item, operation } = findOperation(document, record)
  const converter = createConverter(document, 'request')
  const properties: Record<string, unknown> = {}
  const required: string[] = []
  const example: Record<string, unknown> = {}
  const findFreeName = (preferred: string, prefix: string): string => {
    const name = argumentName(preferred)
    if (!Object.hasOwn(properties, name)) return name
    let longerName = argumentName(`${prefix}_${preferred}`)
    while (Object.hasOwn(properties, longerName)) longerName = `${longerName.slice(0, 62)}_2`
    return longerName
  }

  const parameters = parametersOf(document, record, item, operation).map((raw) => {
    const parameter = createParameter(raw, findFreeName)
    const [schema, exampleValue] = schemaOf(document, raw)
    properties[parameter.argument] = addDescription(converter.convert(schema), raw)
    if (parameter.required) required.push(parameter.argument)
    if (exampleValue !== undefined) example[parameter.argument] = exampleValue
    return parameter
  })

  const dependentRequired: Record<string, readonly string[]> = {}
  const body = planBody(document, operation, converter, {
    properties,
    required,
    dependentRequired,
    example,
    findFreeName,
  })
  const definitions = converter.definitionsOf(properties)
  const isExampleComplete = required.every((name) => Object.hasOwn(example, name)) && Object.keys(example).length > 0
  const security = operation['security'] ?? document['security']
  const servers = [operation['servers'], item['servers'], document['servers']].find(
    (list) => Array.isArray(list) && list.length > 0,
  )
  const { output, accept } = describeResponses(document, operation)
  return {
    description: descriptionOf(record.method, record.path, operation),
    input: {
      type: 'object',
      properties,
      ...(required.length > 0 ? { required: [...new Set(required)] } : {}),
      additionalProperties: false,
      ...(Object.keys(definitions).length > 0 ? { $defs: definitions } : {}),
    },
    dependentRequired,
    output,
    examples: isExampleComplete ? [{ input: example }] : [],
    plan: {
      parameters,
      ...(body === undefined ? {} : { body }),
      accept,
      servers: (servers as unknown[] | undefined) ?? [],
      security: Array.isArray(security) ? (security.filter(isRecord) as Record<string, string[]>[]) : undefined,
    },
  }
}

/** Parameters of the path, unless the operation overrides them. Those that nothing declares are text. */
function parametersOf(document: Json, { path }: OperationRecord, item: Json, operation: Json): Json[] {
  const parameters = new Map<string, Json>()
  for (const parameter of listParameters(document, item, operation)) {
    if (!LOCATIONS.includes(parameter['in'] as ParameterLocation)) continue
    if (parameter['in'] === 'header' && OWN_HEADERS.has(String(parameter['name']).toLowerCase())) continue
    parameters.set(`${parameter['in']} ${parameter['name']}`, parameter)
  }
  for (const name of placeholdersIn(path))
    if (!parameters.has(`path ${name}`))
      parameters.set(`path ${name}`, { name, in: 'path', schema: { type: 'string' } })
  return [...parameters.values()].sort(
    (a, b) => LOCATIONS.indexOf(a['in'] as ParameterLocation) - LOCATIONS.indexOf(b['in'] as ParameterLocation),
  )
}

function createParameter(raw: Json, findFreeName: (preferred: string, prefix: string) => string): Parameter {
  const location = raw['in'] as ParameterLocation
  const name = String(raw['name'])
  const style =
    typeof raw['style'] === 'string' ? raw['style'] : location === 'query' || location === 'cookie' ? 'form' : 'simple'
  return {
    argument: findFreeName(name, location),
    in: location,
    name,
    style,
    explode: typeof raw['explode'] === 'boolean' ? raw['explode'] : style === 'form',
    required: location === 'path' || raw['required'] === true,
    allowReserved: raw['allowReserved'] === true,
    json: isRecord(raw['content']) && isJson(Object.keys(raw['content'])[0] ?? ''),
    segments: raw['x-multi-segment'] === true,
  }
}

/** The schema of a parameter and, if given, an example. */
function schemaOf(document: Json, raw: Json): readonly [schema: unknown, example: unknown] {
  const media = isRecord(raw['content']) ? lookUp(document, Object.values(raw['content'])[0]) : undefined
  const holder = media ?? raw
  return [holder['schema'] ?? {}, exampleIn(document, holder)]
}

function exampleIn(document: Json, holder: Json): unknown {
  if (holder['example'] !== undefined) return holder['example']
  const firstExample = isRecord(holder['examples']) ? lookUp(document, Object.values(holder['examples'])[0]) : undefined
  if (firstExample && 'value' in firstExample) return firstExample['value']
  const schema = lookUp(document, holder['schema'])
  return (
    schema?.['example'] ??
    (Array.isArray(schema?.['examples']) ? schema['examples'][0] : undefined) ??
    schema?.['default']
  )
}

function addDescription(schema: JsonSchema | boolean, raw: Json): JsonSchema {
  const base = typeof schema === 'boolean' ? {} : schema
  const { description, deprecated } = raw
  const text =
    typeof description === 'string' && description.trim() !== '' ? toPrintable(description).trim() : undefined
  const fullDescription = deprecated === true ? `Deprecated. ${text ?? ''}`.trim() : text
  return fullDescription === undefined ? base : { ...base, description: fullDescription.slice(0, 500) }
}

const argumentName = (name: string): string =>
  name
    .replaceAll(/[^A-Za-z0-9_.-]+/g, '_')
    .replace(/^_+(?=[^_])|(?<=[^_])_+$/g, '')
    .slice(0, 64) || 'value'

interface Arguments {
  readonly properties: Record<string, unknown>
  readonly required: string[]
  readonly dependentRequired: Record<string, readonly string[]>
  readonly example: Record<string, unknown>
  readonly findFreeName: (preferred: string, prefix: string) => string
}

/** Media types in the order of preference: first those that Pegboard writes best. */
const PREFERRED: ReadonlyArray<(type: string) => boolean> = [
  (type) => isJson(type) && /^application\/json\b/i.test(type),
  isJson,
  (type) => type.startsWith(FORM),
  (type) => type.startsWith(MULTIPART),
  isText,
  () => true,
]
const preferenceOf = (type: string): number => PREFERRED.findIndex((matches) => matches(type))

function planBody(document: Json, operation: Json, converter: Converter, args: Arguments): RequestBody | undefined {
  const raw = lookUp(document, operation['requestBody'])
  const content = isRecord(raw?.['content']) ? raw['content'] : undefined
  const contentType = Object.keys(content ?? {}).sort((a, b) => preferenceOf(a) - preferenceOf(b))[0]
  if (!raw || !content || contentType === undefined) return undefined
  const media = lookUp(document, content[contentType]) ?? {}
  const encoding = asRecord(media['encoding'])
  const example = exampleIn(document, media)
  const isRequired = raw['required'] === true
  const base = { contentType, required: isRequired, encoding }
  const isStructured = preferenceOf(contentType) <= 3
  if (!isStructured) {
    // The example of an XML schema is often an object.
    const text = typeof example === 'string' ? example : undefined
    const bodyArgument = addBody(describeRawBody(contentType, raw), isRequired, text, args)
    return { ...base, parts: new Map(), bodyArgument, isBase64: !isText(contentType) }
  }
  const merged = converter.convertMerged(media['schema'] ?? {})
  const { parts, schema } = contentType.startsWith(MULTIPART)
    ? planParts(merged, encoding, converter)
    : { parts: new Map<string, Part>(), schema: merged }
  if (isRecord(schema['properties']) && isFlat(schema))
    return { ...base, parts, fields: addFields(schema, isRequired, example, args), isBase64: false }
  const hasFiles = [...parts.values()].some(({ isFile }) => isFile)
  const described = addDescription(hasFiles ? schema : converter.convert(media['schema'] ?? {}), raw)
  return { ...base, parts, bodyArgument: addBody(described, isRequired, example, args), isBase64: false }
}

/** Adds an argument that is the whole body. @returns its name */
function addBody(schema: JsonSchema, isRequired: boolean, example: unknown, args: Arguments): string {
  const argument = args.findFreeName('body', 'request')
  args.properties[argument] = schema
  if (isRequired) args.required.push(argument)
  if (example !== undefined) args.example[argument] = example
  return argument
}

/** Adds an argument for each field of the body. @returns the fields by argument */
function addFields(schema: JsonSchema, isRequired: boolean, example: unknown, args: Arguments): Map<string, string> {
  const namesByArgument = new Map<string, string>()
  const requiredArguments: string[] = []
  const requiredFields = Array.isArray(schema['required']) ? schema['required'] : []
  for (const [name, fieldSchema] of Object.entries(asRecord(schema['properties']))) {
    const argument = args.findFreeName(name, 'body')
    namesByArgument.set(argument, name)
    args.properties[argument] = fieldSchema
    if (requiredFields.includes(name)) requiredArguments.push(argument)
    if (isRecord(example) && Object.hasOwn(example, name)) args.example[argument] = example[name]
  }
  if (isRequired) args.required.push(...requiredArguments)
  else requireTogether([...namesByArgument.keys()], requiredArguments, args)
  return namesByArgument
}

/** An optional body has none of its fields, or all that are required. */
function requireTogether(fields: readonly string[], requiredFields: readonly string[], args: Arguments): void {
  if (fields.length < 2 || requiredFields.length === 0) return
  for (const field of fields) {
    const others = requiredFields.filter((name) => name !== field)
    if (others.length > 0) args.dependentRequired[field] = others
  }
  for (const name of requiredFields) {
    const schema = asRecord(args.properties[name])
    args.properties[name] = {
      ...schema,
      description: appendSentence(schema['description'], 'Required if the body has other fields.'),
    }
  }
}

function describeRawBody(contentType: string, raw: Json): JsonSchema {
  const type = toPrintable(contentType)
  const { description } = addDescription({}, raw)
  return isText(contentType)
    ? { type: 'string', description: appendSentence(description, `Text of the type ${type}.`) }
    : {
        type: 'string',
        contentEncoding: 'base64',
        description: appendSentence(description, `Bytes of the type ${type}, as base64.`),
      }
}

/** How the fields of a multipart body are sent, and its schema with base64 for files. */
function planParts(
  schema: JsonSchema,
  encoding: Json,
  { resolve }: Converter,
): { readonly parts: ReadonlyMap<string, Part>; readonly schema: JsonSchema } {
  const planned = Object.entries(asRecord(schema['properties'])).map(
    ([name, field]) => [name, planPart(field, encoding[name], resolve)] as const,
  )
  if (planned.length === 0) return { parts: new Map(), schema }
  return {
    parts: new Map(planned.map(([name, { part }]) => [name, part])),
    schema: { ...schema, properties: Object.fromEntries(planned.map(([name, { schema: field }]) => [name, field])) },
  }
}

/** True for an object with named fields only. */
const isFlat = (schema: JsonSchema): boolean =>
  (schema['type'] === undefined || schema['type'] === 'object') &&
  (schema['additionalProperties'] === undefined || schema['additionalProperties'] === false) &&
  !['anyOf', 'oneOf', 'allOf', 'not', 'if', 'patternProperties'].some((key) => key in schema)

function describeResponses(
  document: Json,
  operation: Json,
): { readonly output: JsonSchema | undefined; readonly accept: string } {
  const responses = asRecord(operation['responses'])
  const successStatuses = Object.keys(responses)
    .filter((status) => /^2(\d\d|XX)$/i.test(status))
    .sort()
  const types = new Set<string>()
  let output: JsonSchema | undefined
  for (const status of successStatuses) {
    const content = lookUp(document, responses[status])?.['content']
    for (const [type, media] of Object.entries(asRecord(content))) {
      types.add(type)
      const { schema } = lookUp(document, media) ?? {}
      if (isJson(type) && schema !== undefined) output ??= outlineResponse(document, schema)
    }
  }
  // An API may answer with other types too, for example for errors.
  const accept = [...types].filter((type) => type !== '*/*').sort((a, b) => preferenceOf(a) - preferenceOf(b))
  return { output, accept: [...accept.slice(0, 5), '*/*;q=0.1'].join(', ') }
}

const MAX_FIELDS = 80

/**
 * The shape of a response, two levels deep. Types are given in words only: clients reject results that violate a
 * declared schema, and APIs do violate theirs.
 */
function outlineResponse(document: Json, schema: unknown): JsonSchema | undefined {
  const converter = createConverter(document, 'response')
  const converted = converter.convertMerged(schema)
  const isList = converted['type'] === 'array'
  const item = isList ? converter.convertMerged(lookUp(document, schema)?.['items'] ?? {}) : converted
  const fields = isRecord(item['properties']) ? Object.entries(item['properties']).slice(0, MAX_FIELDS) : []
  if (fields.length === 0 && !isList) return undefined
  const properties = Object.fromEntries(fields.map(([name, fieldSchema]) => [name, describeType(fieldSchema)]))
  if (!isList) return { type: 'object', properties }
  return {
    type: 'object',
    properties: {
      items: { description: 'Response of the API.', ...(fields.length > 0 && { items: { properties } }) },
    },
  }
}

function describeType(schema: unknown): JsonSchema {
  if (!isRecord(schema)) return {}
  const type = Array.isArray(schema['type']) ? schema['type'].join(' or ') : schema['type']
  const text =
    typeof schema['description'] === 'string' ? schema['description'].split('\n')[0]?.slice(0, 120) : undefined
  const description = [typeof type === 'string' ? `(${type})` : '', text ?? ''].filter(Boolean).join(' ')
  return description === '' ? {} : { description }
}
