import { mapTexts } from './map-texts.ts'
import { REDACTED } from './secret-values.ts'

/** Secret values that must not appear in output, such as tokens from the configuration. */
export interface KnownSecrets {
  /** Removes the secrets from a text, also in base64. For error messages and logs. */
  hide(text: string): string
  isIn(bytes: Buffer): boolean
  /** Removes the secrets from all texts of a value. Returns the same object if it contains none. */
  hideIn<T>(value: T): T
}

/** Shorter values would match everywhere. */
const MIN_LENGTH = 8

/** Undefined if no value is long enough. */
export function knownSecrets(values: Iterable<string>): KnownSecrets | undefined {
  const secrets = [...values].filter((one) => one.length >= MIN_LENGTH)
  if (secrets.length === 0) return undefined
  const texts = longestFirst(secrets.flatMap(listEncodings))
  const secretTexts = longestFirst([...texts, ...secrets.flatMap(listBase64Forms)])
  const bytes = longestFirst([...texts, ...secrets.flatMap(listJsonSpellings)]).map((text) => Buffer.from(text))
  const redactWith = (text: string, secrets: readonly string[]): string => {
    let redacted = text
    for (const secret of secrets) if (redacted.includes(secret)) redacted = redacted.replaceAll(secret, REDACTED)
    return redacted
  }
  return {
    hide: (text) => redactWith(text, secretTexts),
    isIn: (output) => bytes.some((secret) => output.includes(secret)),
    hideIn: (value) => mapTexts(value, (text) => redactWith(text, texts)),
  }
}

/** Names of variables with secret values. `PWD` is a folder. */
const SECRET_NAME =
  /(?:^|_)(?:(?:API|ACCESS|AUTH|PRIVATE|SECRET|SIGNING|ENCRYPTION)?_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$/i

export const secretsOf = (environment: Readonly<Record<string, string | undefined>>): readonly string[] =>
  Object.entries(environment).flatMap(([name, value]) => (value && SECRET_NAME.test(name) ? [value] : []))

/** Longest first, because one secret may contain another. */
const longestFirst = (texts: readonly string[]): readonly string[] =>
  [...new Set(texts)].filter((one) => one.length >= MIN_LENGTH).sort((a, b) => b.length - a.length)

/** The text itself, and its spellings in JSON and URLs. */
const listEncodings = (text: string): string[] => [
  text,
  JSON.stringify(text).slice(1, -1),
  encodeURIComponent(Buffer.from(text).toString()),
]

/** All spellings in JSON: some programs escape slashes and non-ASCII characters. */
function listJsonSpellings(text: string): string[] {
  const written = JSON.stringify(text).slice(1, -1)
  const slashed = (one: string): string => one.replaceAll('/', '\\/')
  const escaped = (upper: boolean): string =>
    written.replaceAll(/[^\0-\x7f]/g, (unit) => {
      const digits = unit.charCodeAt(0).toString(16).padStart(4, '0')
      return `\\u${upper ? digits.toUpperCase() : digits}`
    })
  return [written, escaped(false), escaped(true)].flatMap((one) => [one, slashed(one)])
}

/** The part of a value's base64 form that does not depend on what surrounds it, in both alphabets. */
function listBase64Forms(text: string): string[] {
  return [0, 1, 2].flatMap((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)])
    const encoded = bytes.subarray(0, bytes.length - (bytes.length % 3)).toString('base64')
    const unaffected = encoded.slice(offset === 0 ? 0 : offset + 1)
    return [unaffected, unaffected.replaceAll('+', '-').replaceAll('/', '_')]
  })
}
