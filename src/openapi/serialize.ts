import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/record.ts'
import type { Json } from './document.ts'
import type { Parameter } from './plan.ts'

const text = (value: unknown): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)

/**
 * Everything but letters, digits and `-._~`, as parameters need it; reserved characters stay where the document says so, but for
 * those that would begin another parameter or be read as a space.
 */
export function encoded(value: unknown, reserved = false): string {
  const strict = encodeURIComponent(text(value)).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return reserved
    ? strict.replaceAll(/%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B|3D)/g, (code) => decodeURIComponent(code))
    : strict
}

/** Parts that mean "here" or "above" between slashes. Written as `%2F` they are ours to send, but many who take them see a slash. */
const SEPARATOR = /[/\\]|%2f|%5c/i
const CLIMBS = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:[/\\]|%2f|%5c|$)/i

/**
 * A parameter of the path in its style.
 * @throws PegboardError E_VALIDATION for a value that would change which path it is
 */
export function pathValue(parameter: Parameter, value: unknown): string {
  const { style, explode, name, segments } = parameter
  const unfit = (): PegboardError =>
    new PegboardError(
      'E_VALIDATION',
      `${parameter.argument}: ${JSON.stringify(text(value).slice(0, 80))} cannot be part of a path.`,
    )
  const encode = (one: unknown): string => {
    const raw = text(one)
    if (SEPARATOR.test(raw) && CLIMBS.test(raw)) throw unfit()
    return segments
      ? raw
          .split('/')
          .map((part) => encoded(part))
          .join('/')
      : encoded(raw)
  }
  const body = parameter.json
    ? encode(JSON.stringify(value))
    : joined(value, explode, style === 'label' ? '.' : style === 'matrix' ? ';' : ',', encode)
  const whole =
    style === 'label'
      ? `.${body}`
      : style === 'matrix'
        ? isRecord(value) && explode
          ? `;${body}`
          : Array.isArray(value) && explode
            ? value.map((one) => `;${name}=${encode(one)}`).join('')
            : `;${name}=${joined(value, false, ',', encode)}`
        : body
  const parts = whole.split('/')
  if (whole === '' || parts.some((part) => /^(\.|%2e){1,2}$/i.test(part)) || (segments && parts[0] === ''))
    throw unfit()
  return whole
}

/** `a,b` of a list; `k,v` or, exploded, `k=v` of an object. */
function joined(value: unknown, explode: boolean, separator: string, encode: (one: unknown) => string): string {
  if (Array.isArray(value)) return value.map(encode).join(explode ? separator : separator === ';' ? ',' : separator)
  if (!isRecord(value)) return encode(value)
  return Object.entries(value)
    .map(([key, one]) => (explode ? `${encode(key)}=${encode(one)}` : `${encode(key)},${encode(one)}`))
    .join(explode ? separator : ',')
}

type Pair = readonly [name: string, value: string]

/** What stands in a query or a form for one value; all encoded. */
export function pairs(
  name: string,
  value: unknown,
  {
    style,
    explode,
    reserved = false,
  }: { readonly style: string; readonly explode: boolean; readonly reserved?: boolean },
): Pair[] {
  const key = encoded(name)
  const encode = (one: unknown): string => encoded(one, reserved)
  if (style === 'deepObject' && typeof value === 'object' && value !== null) return deep(key, value, encode)
  if (Array.isArray(value)) {
    if (value.length === 0) return []
    if (explode) return value.map((one): Pair => [key, encode(one)])
    const separator = style === 'spaceDelimited' ? '%20' : style === 'pipeDelimited' ? '%7C' : ','
    return [[key, value.map(encode).join(separator)]]
  }
  if (!isRecord(value)) return [[key, encode(value)]]
  if (explode) return Object.entries(value).map(([inner, one]): Pair => [encoded(inner), encode(one)])
  return [
    [
      key,
      Object.entries(value)
        .flatMap(([inner, one]) => [encode(inner), encode(one)])
        .join(','),
    ],
  ]
}

/** `name[key]=value`, and so on below; lists as `name[]=value`. */
function deep(key: string, value: object, encode: (one: unknown) => string): Pair[] {
  return Object.entries(value).flatMap(([inner, one]): Pair[] => {
    const below = Array.isArray(value) ? `${key}%5B%5D` : `${key}%5B${encoded(inner)}%5D`
    return typeof one === 'object' && one !== null ? deep(below, one as Json, encode) : [[below, encode(one)]]
  })
}

/** The value of a header. @throws PegboardError E_VALIDATION for one that would be more than a header */
export function headerValue(parameter: Parameter, value: unknown): string {
  const plain = parameter.json ? JSON.stringify(value) : joined(value, parameter.explode, ',', text)
  if (/[^\t\x20-\x7e\x80-\xff]/.test(plain))
    throw new PegboardError('E_VALIDATION', `${parameter.argument} has characters that a header cannot carry.`)
  return plain
}
