import { asRecord, isRecord } from './is-record.ts'
import type { JsonSchema } from './schema.ts'
import { truncate } from './truncate.ts'

const MAX_ENUM = 6
const MAX_PARAMETERS = 24
/** Longer values and signatures fill an answer that describes other tools, too. */
const MAX_VALUE_CHARS = 80
const MAX_CHARS = 4_000
/** An object whose members take more is shown with its required members and as many others as fit. */
const MAX_OBJECT_CHARS = { whole: 80, short: 60, most: 200 } as const

/**
 * A tool's parameters on one line for a model: `path: str, limit?: int = 2000, mode?: "a"|"b"`. Required parameters
 * come first; `?` marks optional ones. Takes a twentieth of the schema's tokens.
 */
export function signatureOf(json: JsonSchema): string {
  return cut(
    parametersOf(json)
      .map(({ text }) => text)
      .join(', '),
    MAX_CHARS,
  )
}

/** Maximum number of optional parameters that are shown although there is no room. */
const MAX_WANTED = 2

/**
 * As `signatureOf`, within `most` characters if that is possible: optional parameters are left out first. Required ones are never left
 * out, because a call without them fails; their types are shortened, the longest first, if they take more than twice as
 * much.
 * @param isWanted true for an optional parameter that comes before the others, and is shown even without room
 */
export function shortSignatureOf(
  json: JsonSchema,
  most: number,
  isWanted: (name: string, schema: unknown) => boolean = () => false,
): string {
  const properties = asRecord(json.properties)
  return shorten(parametersOf(json), most, ({ name }) => isWanted(name, properties[name]))
}

function shorten(parameters: readonly Parameter[], most: number, isWanted: (one: Parameter) => boolean): string {
  const required = parameters.filter(({ isRequired }) => isRequired)
  const optional = parameters.slice(required.length)
  const preferred = optional.filter(isWanted).slice(0, MAX_WANTED)
  const shown = requiredTexts(required, 2 * most)
  shown.push(...preferred.map(({ text }) => text))
  for (const { text } of optional.filter((one) => !preferred.includes(one))) {
    if ([...shown, text].join(', ').length + ', …'.length > most) break
    shown.push(text)
  }
  const [first] = optional
  // "…" alone would say nothing.
  if (shown.length === 0 && first) shown.push(first.shorter.at(-1) ?? first.text)
  return cut((shown.length < parameters.length ? [...shown, '…'] : shown).join(', '), MAX_CHARS)
}

/** Shortens types until all fit, the longest first. Where that is not enough, shortens them once more. */
function requiredTexts(required: readonly Parameter[], most: number): string[] {
  const shown = required.map(({ text, shorter }) => ({ text, shorter }))
  const longestFirst = [...shown].sort((a, b) => b.text.length - a.text.length)
  let size = shown.map(({ text }) => text).join(', ').length
  for (const round of [0, 1])
    for (const one of longestFirst) {
      const next = one.shorter[round]
      if (size <= most || next === undefined) continue
      size -= one.text.length - next.length
      one.text = next
    }
  return shown.map(({ text }) => text)
}

const cut = (text: string, most: number): string => (text.length > most ? `${truncate(text, most - 1)}…` : text)

interface Parameter {
  readonly name: string
  readonly isRequired: boolean
  readonly text: string
  /** With less of its type: an object's required members by name, as `{start, end, …}[]`, then its bare type. */
  readonly shorter: readonly string[]
}

/**
 * Required parameters first.
 * @param isInner true for the members of an object, whose own members are shown only if they take little room
 */
function parametersOf(json: JsonSchema, isInner = false): Parameter[] {
  const properties = asRecord(json.properties)
  const required = new Set(Array.isArray(json.required) ? json.required : [])
  const names = Object.keys(properties).sort((a, b) => Number(required.has(b)) - Number(required.has(a)))
  const shown = names.slice(0, Math.max(MAX_PARAMETERS, required.size)).map((name): Parameter => {
    const schema = properties[name]
    const isRequired = required.has(name)
    const fallback = isRecord(schema) && isScalar(schema.default) ? ` = ${JSON.stringify(schema.default)}` : ''
    const label = `${name}${isRequired ? '' : '?'}: `
    const text = `${label}${typeOf(schema, 0, isInner)}${fallback}`
    const shorter = [membersOf(schema), bareTypeOf(schema)].flatMap((type) => (type ? [`${label}${type}`] : []))
    return { name, isRequired, text, shorter: shorter.filter((one) => one.length < text.length) }
  })
  const rest = names.length - shown.length
  return rest > 0 ? [...shown, { name: '…', isRequired: false, text: `… ${rest} more`, shorter: [] }] : shown
}

function membersOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return undefined
  if (schema.type === 'array') {
    const item = isRecord(schema.items) && schema.items.type === 'object' ? membersOf(schema.items) : undefined
    return item && `${item}[]`
  }
  const names = Array.isArray(schema.required) ? schema.required.filter((one) => typeof one === 'string') : []
  if (schema.type !== 'object' || !isRecord(schema.properties) || names.length === 0) return undefined
  const more = Object.keys(schema.properties).length > names.length ? ', …' : ''
  return `{${names.join(', ')}${more}}`
}

const SHORT: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'num',
  boolean: 'bool',
  object: 'obj',
  null: 'null',
}

function typeOf(schema: unknown, depth: number, isInner: boolean): string {
  if (!isRecord(schema)) return 'any'
  if (schema.const !== undefined) return valueText(schema.const)
  if (Array.isArray(schema.enum)) return enumText(schema.enum)
  const variants = schema.anyOf ?? schema.oneOf
  if (Array.isArray(variants) && depth < 2)
    return [...new Set(variants.slice(0, 4).map((variant) => typeOf(variant, depth + 1, isInner)))].join('|')
  const type = schema.type
  if (Array.isArray(type)) return type.map((one) => SHORT[String(one)] ?? String(one)).join('|')
  if (type === 'array') return arrayText(schema.items, depth, isInner)
  if (type === 'object' && depth === 0 && isRecord(schema.properties)) return objectText(schema, isInner)
  return typeof type === 'string' ? (SHORT[type] ?? type) : 'any'
}

const enumText = (values: readonly unknown[]): string =>
  values.slice(0, MAX_ENUM).map(valueText).join('|') + (values.length > MAX_ENUM ? '|…' : '')

function arrayText(items: unknown, depth: number, isInner: boolean): string {
  if (depth >= 2) return 'array'
  // The members of an object in a list are shown like those of an object.
  const isObject = isRecord(items) && items.type === 'object'
  return `${typeOf(items, isObject ? depth : depth + 1, isInner)}[]`
}

function objectText(schema: JsonSchema, isInner: boolean): string {
  const members = parametersOf(schema, true)
  const inner = members.map(({ text }) => text).join(', ')
  if (inner.length <= MAX_OBJECT_CHARS.whole) return `{${inner}}`
  if (isInner) return 'obj'
  const short = shorten(members, MAX_OBJECT_CHARS.short, () => false)
  return short.length > MAX_OBJECT_CHARS.most ? 'obj' : `{${short}}`
}

/** The type without the members of objects, and with only the first value of an enum. */
function bareTypeOf(schema: unknown): string {
  if (!isRecord(schema)) return 'any'
  if (Array.isArray(schema.enum) && schema.enum.length > 1) return `${valueText(schema.enum[0])}|…`
  return schema.type === 'array' ? `${bareTypeOf(schema.items)}[]` : typeOf(schema, 1, true)
}

const isScalar = (value: unknown): boolean =>
  ['string', 'number', 'boolean'].includes(typeof value) && String(value).length <= 24
const valueText = (value: unknown): string => cut(JSON.stringify(value), MAX_VALUE_CHARS)
