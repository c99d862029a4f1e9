import { JsoncError, parseJsonc } from '../config/jsonc.ts'
import { isRecord } from '../core/is-record.ts'
import { looksSecret } from '../core/secret-names.ts'
import { secretSpans } from '../core/secret-values.ts'

/** A secret that is written in a value itself, not as a reference to a variable. */
export interface PlainSecret {
  readonly path: ReadonlyArray<string | number>
  /** A part of the string at the path, or all of it. */
  readonly secret: string
}

/** Names of variables, headers and options that `looksSecret` does not cover, because they are common in data. */
const NAMES = /(?:^|[_-])(?:key|token|pat|pass|dsn|apikey|cookie)$/i
const isSecretName = (name: string): boolean => looksSecret(name) || NAMES.test(name)

/** A reference, a path, a switch or a number is not a secret. */
const HARMLESS = /\$\{|^\$\w+$|\{\{|^(?:[./~]|[A-Za-z]:\\)|^(?:true|false|yes|no|on|off|none|null|\d{1,8})$/i
const SCHEME = /^(?:bearer|basic|token|apikey)\s+(\S+)$/i
const OPTION = /^--?([A-Za-z][\w.-]*?)(?:=(.*))?$/s

/** Finds plain-text secrets: by the names of keys and options, and by their form. */
export function findPlainSecrets(value: unknown): readonly PlainSecret[] {
  const found: PlainSecret[] = []
  const add = (path: PlainSecret['path'], secret: string): void => {
    if (secret !== '' && !HARMLESS.test(secret)) found.push({ path, secret })
  }
  const visit = (item: unknown, path: PlainSecret['path'], isNamed: boolean): void => {
    if (typeof item === 'string') {
      const spans = secretSpans(item)
      if (isNamed && !URL.canParse(item)) add(path, SCHEME.exec(item)?.[1] ?? item)
      else if (spans.length > 0) for (const { start, end } of spans) add(path, item.slice(start, end))
      else for (const secret of secretsInUrl(item)) add(path, secret)
    } else if (Array.isArray(item)) {
      for (const [index, one] of item.entries()) {
        const [, name = '', given] = (typeof one === 'string' && OPTION.exec(one)) || []
        const before = index > 0 && typeof item[index - 1] === 'string' ? OPTION.exec(item[index - 1]) : null
        if (given !== undefined && isSecretName(name)) add([...path, index], given)
        else
          visit(
            one,
            [...path, index],
            before?.[1] !== undefined && before[2] === undefined && name === '' && isSecretName(before[1]),
          )
      }
    } else if (isRecord(item)) {
      for (const [key, one] of Object.entries(item)) visit(one, [...path, key], isSecretName(key))
    }
  }
  visit(value, [], false)
  return found
}

/** Values of query parameters that are named like credentials. */
function secretsInUrl(text: string): readonly string[] {
  if (!/^https?:\/\/[^\s?]*\?/i.test(text) || !URL.canParse(text)) return []
  return [...text.matchAll(/[?&]([\w.-]{1,64})=([^&#\s]+)/g)].flatMap(([, name = '', value = '']) =>
    isSecretName(name) ? [value] : [],
  )
}

/** The secrets in a JSON text, in every spelling in which the text has them; none if it is no JSON. */
export function secretsInText(text: string): readonly string[] {
  try {
    return findPlainSecrets(parseJsonc(text, { roundIntegers: true }).value).flatMap(({ secret }) => [
      JSON.stringify(secret).slice(1, -1),
      secret,
    ])
  } catch (error) {
    if (error instanceof JsoncError) return []
    throw error
  }
}
