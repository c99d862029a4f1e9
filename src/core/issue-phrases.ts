import { joinNames } from './join-names.ts'
import { didYouMean } from './tool-names.ts'

/** Words for types, by their names in zod and JSON Schema. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  string: ['a string'],
  number: ['a number'],
  int: ['a whole number'],
  integer: ['a whole number'],
  boolean: ['true', 'false'],
  array: ['a list'],
  object: ['an object'],
  record: ['an object'],
}
export const kindsOf = (name: string): readonly string[] => KINDS[name] ?? [name]

/** The type of a value, never the value itself: it may be a secret. */
const nameOf = (value: unknown): string =>
  value === null
    ? 'null'
    : typeof value === 'boolean'
      ? 'a boolean'
      : (kindsOf(Array.isArray(value) ? 'array' : typeof value)[0] ?? '')

/** @param things alternatives, such as `a list` or `"auto"` */
export function describeExpected(things: readonly string[], given: unknown): string {
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

const MAX_VALUES = 20

/** The first allowed values as alternatives for `describeExpected`. */
export function thingsOf(values: readonly unknown[]): readonly string[] {
  const things = [...new Set(values.map((value) => JSON.stringify(value)))]
  return things.length > MAX_VALUES
    ? [...things.slice(0, MAX_VALUES), `one of ${things.length - MAX_VALUES} other values`]
    : things
}

export function describeAllowedValues(values: readonly unknown[], given: unknown): string {
  const texts = values.filter((value) => typeof value === 'string')
  return describeExpected(thingsOf(values), given) + (typeof given === 'string' ? didYouMean(given, texts) : '')
}

/** @param word such as `key` */
export function describeUnknownName(word: string, name: string, knownNames: readonly string[], ifNone: string): string {
  const otherwise = `; ${knownNames.length > 0 ? `known: ${joinNames(knownNames, MAX_VALUES)}` : ifNone}`
  return `unknown ${word} "${name}"${didYouMean(name, knownNames, otherwise)}`
}

export function describeBound(origin: string, limit: number | bigint, how: string): string {
  const thing = origin === 'string' ? 'character' : 'entry'
  if (origin === 'number' || origin === 'int') return `must be ${how} ${limit}`
  if (how === 'at least' && Number(limit) === 1) return 'must not be empty'
  const things = Number(limit) === 1 ? thing : thing === 'entry' ? 'entries' : `${thing}s`
  return `must have ${how} ${limit} ${things}`
}

const DATE_AND_TIME = 'a date and time such as "2026-01-31T12:00:00Z"'
const ADDRESS = 'an address such as "https://example.com"'

/** Words for formats of texts, by their names in zod and JSON Schema. */
const FORMATS: Readonly<Record<string, string>> = {
  url: ADDRESS,
  uri: ADDRESS,
  email: 'an email address',
  date: 'a date such as "2026-01-31"',
  datetime: DATE_AND_TIME,
  'date-time': DATE_AND_TIME,
  time: 'a time such as "12:00:00"',
  duration: 'a duration such as "P1DT12H"',
  uuid: 'a UUID',
  ipv4: 'an IPv4 address',
  ipv6: 'an IPv6 address',
  hostname: 'a host name',
}

export function describeFormat(format: string): string | undefined {
  const thing = FORMATS[format]
  return thing === undefined ? undefined : `must be ${thing}`
}
