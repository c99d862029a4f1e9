import type { OutputUnit } from '@cfworker/json-schema'
import { asRecord, isRecord } from './is-record.ts'
import {
  describeAllowedValues,
  describeBound,
  describeExpected,
  describeFormat,
  describeUnknownName,
  kindsOf,
  thingsOf,
} from './issue-phrases.ts'
import { resolvePointer } from './json-pointer.ts'
import type { Issue, JsonSchema } from './schema.ts'
import { truncate } from './truncate.ts'

/** Describes the errors of a validator in the words that errors of zod schemas have. */
export function describeValidationErrors(errors: readonly OutputUnit[], schema: JsonSchema, value: unknown): Issue[] {
  const located = errors.map((error, index) =>
    // For a schema `false`, the validator gives no location. The error before it is that of the schema around it.
    error.keyword === 'false' ? { ...error, keywordLocation: errors[index - 1]?.keywordLocation ?? '#' } : error,
  )
  return describeErrors(
    located.filter(({ keyword }) => !WRAPPERS.has(keyword)),
    { schema, value },
  )
}

/** Keywords whose own error only says that a nested check failed. */
const WRAPPERS = new Set([
  'properties',
  'patternProperties',
  'additionalProperties',
  'unevaluatedProperties',
  'items',
  'prefixItems',
  'additionalItems',
  'unevaluatedItems',
  'allOf',
  'if',
  'dependentSchemas',
  '$ref',
  '$recursiveRef',
])

/** Keywords whose error describes the nested ones, too. */
const GROUPS = new Set(['anyOf', 'oneOf', 'propertyNames', 'contains'])

/** A long list may have thousands of errors. */
const MAX_ISSUES = 10

interface Checked {
  readonly schema: JsonSchema
  readonly value: unknown
}

function describeErrors(errors: readonly OutputUnit[], checked: Checked): Issue[] {
  const issues: Issue[] = []
  let rest = errors
  for (let [error] = rest; error && issues.length < MAX_ISSUES; [error] = rest) {
    const isNested = isIn(`${error.keywordLocation}/`)
    const end = GROUPS.has(error.keyword) ? rest.findIndex((other, index) => index > 0 && !isNested(other)) : 1
    const nested = rest.slice(1, end < 0 ? undefined : end)
    rest = rest.slice(1 + nested.length)
    if (!isRepeated(error, errors)) issues.push(...describeError(error, nested, checked))
  }
  return issues
}

const isIn =
  (location: string) =>
  ({ keywordLocation }: OutputUnit): boolean =>
    keywordLocation.startsWith(location)

/** The validator reports an invalid property a second time, as unevaluated. */
const isRepeated = ({ keyword, keywordLocation, instanceLocation }: OutputUnit, all: readonly OutputUnit[]): boolean =>
  keyword === 'false' &&
  keywordLocation.endsWith('/unevaluatedProperties') &&
  all.some((other) => other.keyword !== 'false' && `${other.instanceLocation}/`.startsWith(`${instanceLocation}/`))

function describeError(error: OutputUnit, nested: readonly OutputUnit[], checked: Checked): Issue[] {
  const { keyword, instanceLocation, keywordLocation } = error
  if (keyword === 'anyOf' || keyword === 'oneOf') return describeAlternatives(error, nested, checked)
  const path = pathOf(instanceLocation)
  const given = resolvePointer(checked.value, instanceLocation, false)
  const expected = findSchema(checked.schema, keywordLocation)
  const at = (message: string, name?: string): Issue[] => [
    { path: [...path, ...(name === undefined ? [] : [name])].join('.'), message },
  ]
  switch (keyword) {
    case 'required': {
      const name = quotedIn(error)[0] ?? ''
      const properties = asRecord(asRecord(findSchema(checked.schema, parentOf(keywordLocation)))['properties'])
      const things = thingsOfSchema(checked.schema, properties[name])
      return at(things.length > 0 ? describeExpected(things, undefined) : 'is missing', name)
    }
    case 'dependentRequired': {
      const [present, name = ''] = quotedIn(error)
      return at(`is missing; it must be set if "${present}" is set`, name)
    }
    case 'false': {
      const name = path.at(-1) ?? ''
      if (!/\/(?:additional|unevaluated)Properties$/.test(keywordLocation)) return at('must not be set')
      const { properties } = asRecord(findSchema(checked.schema, parentOf(keywordLocation)))
      const message = describeUnknownName('key', name, Object.keys(asRecord(properties)), 'no key is allowed')
      return [{ path: path.slice(0, -1).join('.'), message }]
    }
    case 'propertyNames': {
      const name = quotedIn(error)[0] ?? ''
      const [issue] = nested[0]
        ? describeError({ ...nested[0], instanceLocation: '#' }, [], { ...checked, value: name })
        : []
      return at(`is not a valid name: it ${issue?.message ?? 'has another form'}`, name)
    }
    default:
      // `expected` is undefined after a reference by `$id`, which `findSchema` does not follow.
      return at((expected === undefined ? undefined : describeKeyword(keyword, expected, given)) ?? error.error)
  }
}

function describeKeyword(keyword: string, expected: unknown, given: unknown): string | undefined {
  const limit = typeof expected === 'number' ? expected : undefined
  switch (keyword) {
    case 'type':
      return describeExpected(kindsOfTypes(expected), given)
    case 'enum':
      return Array.isArray(expected) ? describeAllowedValues(expected, given) : undefined
    case 'const':
      return describeAllowedValues([expected], given)
    case 'pattern':
      return `must match /${expected}/`
    case 'format':
      return describeFormat(String(expected)) ?? `must have the format "${expected}"`
    case 'uniqueItems':
      return 'must not have the same entry twice'
    case 'multipleOf':
      return `must be a multiple of ${expected}`
    case 'not':
      return `must not match ${showSchema(expected)}`
    case 'contains':
      return `must have an entry that matches ${showSchema(expected)}`
  }
  const bound = BOUNDS[keyword]
  return bound && limit !== undefined ? describeBound(bound[0], limit, bound[1]) : undefined
}

const showSchema = (schema: unknown): string => truncate(JSON.stringify(schema), 200)

const BOUNDS: Readonly<Record<string, readonly [origin: string, how: string]>> = {
  minimum: ['number', 'at least'],
  maximum: ['number', 'at most'],
  exclusiveMinimum: ['number', 'more than'],
  exclusiveMaximum: ['number', 'less than'],
  minLength: ['string', 'at least'],
  maxLength: ['string', 'at most'],
  minItems: ['array', 'at least'],
  maxItems: ['array', 'at most'],
  minProperties: ['object', 'at least'],
  maxProperties: ['object', 'at most'],
}

/** Describes the alternative that fits best, or all of them. */
function describeAlternatives(union: OutputUnit, nested: readonly OutputUnit[], checked: Checked): Issue[] {
  const { keywordLocation, instanceLocation } = union
  const path = pathOf(instanceLocation).join('.')
  const alternatives = findSchema(checked.schema, keywordLocation)
  if (!Array.isArray(alternatives)) return [{ path, message: union.error }]
  const errorsByAlternative = alternatives.map((_, index) => nested.filter(isIn(`${keywordLocation}/${index}/`)))
  if (errorsByAlternative.some((errors) => errors.length === 0))
    return [{ path, message: 'matches several alternatives; it must match exactly one' }]
  const near = errorsByAlternative.filter(
    ([first]) => first?.instanceLocation !== instanceLocation || !isValueError(first),
  )
  if (near.length === 0) return [describeValues(errorsByAlternative, instanceLocation, checked)]
  const tag = findTag(near)
  if (tag !== undefined) return [describeValues(near, tag, checked)]
  const countOtherTags = (errors: readonly OutputUnit[]): number => errors.filter(isTagError).length
  const [best = []] = near.toSorted((a, b) => countOtherTags(a) - countOtherTags(b) || a.length - b.length)
  return describeErrors(best, checked)
}

const isTagError = ({ keyword }: OutputUnit): boolean => keyword === 'enum' || keyword === 'const'
const isValueError = (error: OutputUnit): boolean => error.keyword === 'type' || isTagError(error)

/** The location of a field, such as `kind`, that has another value in each of several alternatives. */
function findTag(errorsByAlternative: readonly (readonly OutputUnit[])[]): string | undefined {
  const [first = [], ...others] = errorsByAlternative
  if (others.length === 0) return undefined
  return first
    .filter(isTagError)
    .map(({ instanceLocation }) => instanceLocation)
    .find((place) =>
      others.every((errors) => errors.some((error) => isTagError(error) && error.instanceLocation === place)),
    )
}

/** Describes which values the alternatives allow at `place`. */
function describeValues(
  errorsByAlternative: readonly (readonly OutputUnit[])[],
  place: string,
  { schema, value }: Checked,
): Issue {
  const values: unknown[] = []
  const kinds: string[] = []
  for (const errors of errorsByAlternative) {
    const error = errors.find((one) => one.instanceLocation === place && isValueError(one))
    const expected = error && findSchema(schema, error.keywordLocation)
    if (error?.keyword === 'type') kinds.push(...kindsOfTypes(expected))
    else if (error?.keyword === 'enum' && Array.isArray(expected)) values.push(...expected)
    else values.push(expected)
  }
  const given = resolvePointer(value, place, false)
  const message =
    kinds.length === 0
      ? describeAllowedValues(values, given)
      : describeExpected([...new Set([...thingsOf(values), ...kinds])], given)
  return { path: pathOf(place).join('.'), message }
}

const kindsOfTypes = (types: unknown): readonly string[] => [types].flat().flatMap((type) => kindsOf(String(type)))

/** Alternatives for `describeExpected`; none if the schema accepts values of several types. */
function thingsOfSchema(root: JsonSchema, schema: unknown): readonly string[] {
  const resolved = followReferences(root, schema)
  if (!isRecord(resolved)) return []
  if (Array.isArray(resolved['enum'])) return thingsOf(resolved['enum'])
  if (resolved['const'] !== undefined) return thingsOf([resolved['const']])
  return kindsOfTypes(resolved['type'] ?? [])
}

/** The part of a schema at a location that may lead through references. */
function findSchema(root: JsonSchema, location: string): unknown {
  let at: unknown = root
  for (const part of location.split('/').slice(1)) {
    const ref = part === '$ref' && isRecord(at) ? at['$ref'] : undefined
    at = typeof ref === 'string' ? resolvePointer(root, ref) : resolvePointer(at, `#/${part}`, false)
  }
  return at
}

function followReferences(root: JsonSchema, schema: unknown): unknown {
  let at = schema
  for (let hops = 0; hops < 50 && isRecord(at) && typeof at['$ref'] === 'string'; hops++)
    at = resolvePointer(root, at['$ref'])
  return at
}

const pathOf = (location: string): string[] =>
  location
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))

const parentOf = (location: string): string => location.slice(0, location.lastIndexOf('/'))

/** The names that the validator puts in quotes. */
function quotedIn({ keyword, error }: OutputUnit): string[] {
  const pattern = keyword === 'dependentRequired' ? /^Instance has "(.*)" but does not have "(.*)"\.$/s : /"(.*)"/s
  return pattern.exec(error)?.slice(1) ?? []
}
