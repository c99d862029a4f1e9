import { isRecord } from './is-record.ts'
import type { JsonSchema } from './schema.ts'
import { truncate } from './truncate.ts'

const MAX_ENUM = 6
const MAX_PARAMETERS = 24
/** Longer values and signatures fill an answer that describes other tools, too. */
const MAX_VALUE_CHARS = 80
const MAX_CHARS = 4_000

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
 * The same within `most` characters, if that can be: optional parameters are left out first. Required ones are never left
 * out, because a call without them fails; their types are left out if they take more than twice as much.
 * @param isWanted true for an optional parameter that comes before the others, and is shown even without room
 */
export function shortSignatureOf(
  json: JsonSchema,
  most: number,
  isWanted: (name: string, schema: unknown) => boolean = () => false,
): string {
  const properties = isRecord(json.properties) ? json.properties : {}
  const parameters = parametersOf(json)
  const required = parameters.filter(({ isRequired }) => isRequired)
  const optional = parameters.slice(required.length)
  const wanted = optional.filter(({ name }) => isWanted(name, properties[name])).slice(0, MAX_WANTED)
  const typed = required.map(({ text }) => text)
  const shown = typed.join(', ').length > 2 * most ? required.map(({ name }) => name) : typed
  shown.push(...wanted.map(({ text }) => text))
  for (const { text } of optional.filter((one) => !wanted.includes(one))) {
    if ([...shown, text].join(', ').length + ', …'.length > most) break
    shown.push(text)
  }
  return cut((shown.length < parameters.length ? [...shown, '…'] : shown).join(', '), MAX_CHARS)
}

const cut = (text: string, most: number): string => (text.length > most ? `${truncate(text, most - 1)}…` : text)

interface Parameter {
  readonly name: string
  readonly isRequired: boolean
  readonly text: string
}

/** Required parameters first. */
function parametersOf(json: JsonSchema): Parameter[] {
  const properties = isRecord(json.properties) ? json.properties : {}
  const required = new Set(Array.isArray(json.required) ? json.required : [])
  const names = Object.keys(properties).sort((a, b) => Number(required.has(b)) - Number(required.has(a)))
  const shown = names.slice(0, Math.max(MAX_PARAMETERS, required.size)).map((name): Parameter => {
    const schema = properties[name]
    const isRequired = required.has(name)
    const fallback = isRecord(schema) && isScalar(schema.default) ? ` = ${JSON.stringify(schema.default)}` : ''
    return { name, isRequired, text: `${name}${isRequired ? '' : '?'}: ${typeOf(schema, 0)}${fallback}` }
  })
  const rest = names.length - shown.length
  return rest > 0 ? [...shown, { name: '…', isRequired: false, text: `… ${rest} more` }] : shown
}

const SHORT: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'num',
  boolean: 'bool',
  object: 'obj',
  null: 'null',
}

function typeOf(schema: unknown, depth: number): string {
  if (!isRecord(schema)) return 'any'
  if (schema.const !== undefined) return valueText(schema.const)
  if (Array.isArray(schema.enum)) {
    const values = schema.enum.slice(0, MAX_ENUM).map(valueText)
    return values.join('|') + (schema.enum.length > MAX_ENUM ? '|…' : '')
  }
  const variants = schema.anyOf ?? schema.oneOf
  if (Array.isArray(variants) && depth < 2)
    return [...new Set(variants.slice(0, 4).map((variant) => typeOf(variant, depth + 1)))].join('|')
  const type = schema.type
  if (Array.isArray(type)) return type.map((one) => SHORT[String(one)] ?? String(one)).join('|')
  // The members of an object in a list are shown like those of an object.
  if (type === 'array')
    return depth < 2
      ? `${typeOf(schema.items, isRecord(schema.items) && schema.items.type === 'object' ? depth : depth + 1)}[]`
      : 'array'
  if (type === 'object' && depth === 0 && isRecord(schema.properties)) {
    const inner = signatureOf(schema)
    return inner.length <= 80 ? `{${inner}}` : 'obj'
  }
  return typeof type === 'string' ? (SHORT[type] ?? type) : 'any'
}
const isScalar = (value: unknown): boolean =>
  ['string', 'number', 'boolean'].includes(typeof value) && String(value).length <= 24
const valueText = (value: unknown): string => cut(JSON.stringify(value), MAX_VALUE_CHARS)
