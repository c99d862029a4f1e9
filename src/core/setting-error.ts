import type { z } from 'zod'
import {
  describeAllowedValues,
  describeBound,
  describeExpected,
  describeFormat,
  kindsOf,
  thingsOf,
} from './issue-phrases.ts'
import type { StandardIssue } from './schema.ts'

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
      return describeAllowedValues(issue.values, given)
    case 'invalid_union':
      return describeUnion(issue.errors, given)
    case 'invalid_key':
      return `is not a valid name: it ${issue.issues[0] ? describeSettingError(issue.issues[0], issue.path.at(-1)) : 'has another form'}`
    case 'invalid_format':
      return issue.format === 'regex' ? `must match ${issue.pattern}` : describeFormat(issue.format)
    case 'too_small':
      return describeBound(issue.origin, issue.minimum, issue.inclusive === false ? 'more than' : 'at least')
    case 'too_big':
      return describeBound(issue.origin, issue.maximum, issue.inclusive === false ? 'less than' : 'at most')
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'unrecognized_keys':
      return `unknown key ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}`
    default:
      return undefined
  }
}

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
        ? thingsOf(issue.values)
        : [],
  )
  return things.length > 0 ? describeExpected([...new Set(things)], given) : undefined
}
