import { PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import type { Parameter } from './plan-operation.ts'

const toText = (value: unknown): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)

/** Written as U+FFFD, because it has no UTF-8 encoding. The rest of the request does the same. */
export const LONE_SURROGATE = /\p{Cs}/gu

/**
 * Percent-encodes everything but letters, digits and `-._~`. With `reserved`, reserved characters stay, except those
 * that would start another parameter or be read as a space.
 */
export function encodeValue(value: unknown, reserved = false): string {
  const encoded = encodeURIComponent(toText(value).replaceAll(LONE_SURROGATE, '\ufffd')).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return reserved
    ? encoded.replaceAll(/%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B|3D)/g, (code) => decodeURIComponent(code))
    : encoded
}

/** Separators that could turn a value into `.` or `..` segments. Even `%2F` is read as a slash by many servers. */
const SEPARATOR = /[/\\]|%2f|%5c/i
const TRAVERSAL = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:[/\\]|%2f|%5c|$)/i

/** Separators of the parts of a value, by style. */
const PATH_SEPARATORS: ReadonlyMap<string, string> = new Map([
  ['label', '.'],
  ['matrix', ';'],
])

/**
 * Serializes a path parameter in its style.
 * @throws PegboardError E_VALIDATION for a value that would change the path itself
 */
export function serializePath(parameter: Parameter, value: unknown): string {
  const { style, explode, name, segments } = parameter
  const createPathError = (): PegboardError =>
    new PegboardError(
      'E_VALIDATION',
      `${parameter.argument}: ${JSON.stringify(toText(value).slice(0, 80))} cannot be part of a path.`,
    )
  const encode = (part: unknown): string => {
    const plainText = toText(part)
    if (SEPARATOR.test(plainText) && TRAVERSAL.test(plainText)) throw createPathError()
    return segments
      ? plainText
          .split('/')
          .map((part) => encodeValue(part))
          .join('/')
      : encodeValue(plainText)
  }
  const serialized = parameter.json
    ? encode(JSON.stringify(value))
    : joinValue(value, explode, PATH_SEPARATORS.get(style) ?? ',', encode)

  function addStyle(): string {
    if (style === 'label') return `.${serialized}`
    if (style !== 'matrix') return serialized
    if (explode && isRecord(value)) return `;${serialized}`
    if (explode && Array.isArray(value)) return value.map((one) => `;${name}=${encode(one)}`).join('')
    return `;${name}=${joinValue(value, false, ',', encode)}`
  }

  const styled = addStyle()
  const parts = styled.split('/')
  if (styled === '' || parts.some((part) => /^(\.|%2e){1,2}$/i.test(part)) || (segments && parts[0] === ''))
    throw createPathError()
  return styled
}

/** `a,b` for a list; `k,v` or, exploded, `k=v` for an object. */
function joinValue(value: unknown, explode: boolean, separator: string, encode: (one: unknown) => string): string {
  if (Array.isArray(value)) return value.map(encode).join(separator)
  if (!isRecord(value)) return encode(value)
  return Object.entries(value)
    .map(([key, one]) => (explode ? `${encode(key)}=${encode(one)}` : `${encode(key)},${encode(one)}`))
    .join(explode ? separator : ',')
}

type Pair = readonly [name: string, value: string]

/** The encoded name-value pairs of one value, for a query or form. */
export function encodePairs(
  name: string,
  value: unknown,
  options: { readonly style: string; readonly explode: boolean; readonly reserved?: boolean },
): Pair[] {
  const { style, explode, reserved = false } = options
  const key = encodeValue(name)
  const encode = (one: unknown): string => encodeValue(one, reserved)
  if (style === 'deepObject' && typeof value === 'object' && value !== null) return toDeepObject(key, value, encode)
  const separator = style === 'spaceDelimited' ? '%20' : style === 'pipeDelimited' ? '%7C' : ','
  if (Array.isArray(value)) {
    if (value.length === 0) return []
    if (explode) return value.map((one): Pair => [key, encode(one)])
    return [[key, value.map(encode).join(separator)]]
  }
  if (!isRecord(value)) return [[key, encode(value)]]
  if (explode) return Object.entries(value).map(([inner, one]): Pair => [encodeValue(inner), encode(one)])
  return [
    [
      key,
      Object.entries(value)
        .flatMap(([inner, one]) => [encode(inner), encode(one)])
        .join(separator),
    ],
  ]
}

/** `name[key]=value` for nested objects; lists as `name[]=value`. */
function toDeepObject(key: string, value: object, encode: (one: unknown) => string): Pair[] {
  return Object.entries(value).flatMap(([inner, one]): Pair[] => {
    const innerKey = Array.isArray(value) ? `${key}%5B%5D` : `${key}%5B${encodeValue(inner)}%5D`
    return typeof one === 'object' && one !== null
      ? toDeepObject(innerKey, one as Json, encode)
      : [[innerKey, encode(one)]]
  })
}

/** Serializes a header value. @throws PegboardError E_VALIDATION for a value that contains line breaks */
export function serializeHeader(parameter: Parameter, value: unknown): string {
  const serialized = parameter.json ? JSON.stringify(value) : joinValue(value, parameter.explode, ',', toText)
  if (/[^\t\x20-\x7e\x80-\xff]/.test(serialized))
    throw new PegboardError('E_VALIDATION', `${parameter.argument} has characters that a header cannot carry.`)
  return serialized
}
