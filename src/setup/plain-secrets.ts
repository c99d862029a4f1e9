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
  return [...plainSecretsIn(value, [], false)].filter(({ secret }) => secret !== '' && !HARMLESS.test(secret))
}

/** @param isNamed true if the name of the value says that it is a secret */
function* plainSecretsIn(value: unknown, path: PlainSecret['path'], isNamed: boolean): Generator<PlainSecret> {
  if (typeof value === 'string') {
    for (const secret of secretsInString(value, isNamed)) yield { path, secret }
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const secret = secretOptionValue(item)
      if (secret !== undefined) yield { path: [...path, index], secret }
      else yield* plainSecretsIn(item, [...path, index], isValueOfSecretOption(item, value[index - 1]))
    }
  } else if (isRecord(value)) {
    for (const [key, item] of Object.entries(value)) yield* plainSecretsIn(item, [...path, key], isSecretName(key))
  }
}

function secretsInString(text: string, isNamed: boolean): readonly string[] {
  if (isNamed && !URL.canParse(text)) return [SCHEME.exec(text)?.[1] ?? text]
  const spans = secretSpans(text)
  return spans.length > 0 ? spans.map(({ start, end }) => text.slice(start, end)) : secretsInUrl(text)
}

interface Option {
  readonly name: string
  /** Undefined without `=`. */
  readonly value: string | undefined
}

function parseOption(argument: unknown): Option | undefined {
  const [, name, value] = (typeof argument === 'string' && OPTION.exec(argument)) || []
  return name === undefined ? undefined : { name, value }
}

/** The value in an argument such as `--token=VALUE`. */
function secretOptionValue(argument: unknown): string | undefined {
  const option = parseOption(argument)
  return option && isSecretName(option.name) ? option.value : undefined
}

/** True for the argument after one such as `--token`. */
function isValueOfSecretOption(argument: unknown, before: unknown): boolean {
  const option = parseOption(before)
  return option !== undefined && option.value === undefined && isSecretName(option.name) && !parseOption(argument)
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
