import type { z } from 'zod'
import type { StandardIssue } from './schema.ts'

/** Zod's type names in plain words. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  string: ['a string'],
  number: ['a number'],
  int: ['a whole number'],
  boolean: ['true', 'false'],
  array: ['a list'],
  object: ['an object'],
  record: ['an object'],
}
const kindsOf = (name: string): readonly string[] => KINDS[name] ?? [name]

/** The type of a value, never the value itself: it may be a secret. */
const nameOf = (value: unknown): string =>
  value === null
    ? 'null'
    : typeof value === 'boolean'
      ? 'a boolean'
      : (kindsOf(Array.isArray(value) ? 'array' : typeof value)[0] ?? '')

/** How zod's own messages begin, if a schema defines none. */
const BY_ZOD = /^(?:Invalid |Too (?:small|big)|Unrecognized key)/

type Issue = z.core.$ZodIssue

/** Describes an invalid setting: what is expected and what type was given. @param value the whole checked value */
export function describeSettingError(issue: StandardIssue, value: unknown): string {
  const description = BY_ZOD.test(issue.message) ? messageFor(issue as Issue, valueAt(value, issue)) : undefined
  return description ?? issue.message
}

const valueAt = (value: unknown, { path = [] }: StandardIssue): unknown =>
  path.reduce<unknown>(
    (at, step) => (at as Record<PropertyKey, unknown> | undefined)?.[typeof step === 'object' ? step.key : step],
    value,
  )

function messageFor(issue: Issue, given: unknown): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return describeExpected(kindsOf(issue.expected), given)
    case 'invalid_value':
      return describeExpected(
        issue.values.map((value) => JSON.stringify(value)),
        given,
      )
    case 'invalid_union':
      return describeUnion(issue.errors, given)
    case 'invalid_key':
      return `is not a valid name: it ${issue.issues[0] ? describeSettingError(issue.issues[0], issue.path.at(-1)) : 'has another form'}`
    case 'invalid_format':
      if (issue.format === 'url') return 'must be an address such as "https://example.com"'
      return issue.format === 'regex' ? `must match ${issue.pattern}` : undefined
    case 'too_small':
      return describeBound(issue.origin, issue.minimum, issue.inclusive === false ? 'more than' : 'at least')
    case 'too_big':
      return describeBound(issue.origin, issue.maximum, issue.inclusive === false ? 'less than' : 'at most')
    case 'unrecognized_keys':
      return `unknown key ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}`
    default:
      return undefined
  }
}

function describeExpected(things: readonly string[], given: unknown): string {
  const last = things.at(-1)
  const list = things.length > 1 ? `${things.slice(0, -1).join(', ')} or ${last}` : last
  if (given === undefined) return `is missing; it must be ${list}`
  const kind = nameOf(given)
  return things.some((thing) => kindOfThing(thing) === kind) ? `must be ${list}` : `must be ${list}, not ${kind}`
}

const kindOfThing = (thing: string): string =>
  thing.startsWith('"')
    ? 'a string'
    : /^(?:a whole number|-?\d.*)$/.test(thing)
      ? 'a number'
      : /^(?:true|false)$/.test(thing)
        ? 'a boolean'
        : thing

/** Describes the union member that fits best, or all of them. */
function describeUnion(errors: readonly (readonly Issue[])[], given: unknown): string | undefined {
  const first = errors.flatMap(([one]) => one ?? [])
  const inside = first.find(
    ({ path, code }) => path.length > 0 || (code !== 'invalid_type' && code !== 'invalid_value'),
  )
  if (inside) {
    const error = describeSettingError(inside, given)
    return inside.path.length > 0 ? `${inside.path.map(String).join('.')}: ${error}` : error
  }
  const things = first.flatMap((issue) =>
    issue.code === 'invalid_type'
      ? kindsOf(issue.expected)
      : issue.code === 'invalid_value'
        ? issue.values.map((value) => JSON.stringify(value))
        : [],
  )
  return things.length > 0 ? describeExpected([...new Set(things)], given) : undefined
}

function describeBound(origin: string, limit: number | bigint, how: string): string {
  const thing = origin === 'string' ? 'character' : 'entry'
  if (origin === 'number' || origin === 'int') return `must be ${how} ${limit}`
  if (how === 'at least' && limit === 1) return 'must not be empty'
  const things = limit === 1 ? thing : thing === 'entry' ? 'entries' : `${thing}s`
  return `must have ${how} ${limit} ${things}`
}
