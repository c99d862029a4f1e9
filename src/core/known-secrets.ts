import { REDACTED } from './tripwire.ts'

/** Values that must not leave, such as tokens of the configuration. */
export interface KnownSecrets {
  /** The text without them. */
  hide(text: string): string
  /** Whether bytes have one of them. */
  isIn(bytes: Buffer): boolean
  /** The value without them; the same object where it has none. */
  hideIn<T>(value: T): T
}

/** Shorter ones are found everywhere, and hide nothing. */
const MIN_LENGTH = 8

/** `undefined` where there is nothing to look for. */
export function knownSecrets(values: Iterable<string>): KnownSecrets | undefined {
  // Longest first: one may be part of another. In JSON some are written otherwise.
  const texts = [...new Set([...values].filter((one) => one.length >= MIN_LENGTH).flatMap(spellings))].sort(
    (a, b) => b.length - a.length,
  )
  if (texts.length === 0) return undefined
  const bytes = texts.map((text) => Buffer.from(text))
  const hide = (text: string): string => {
    let kept = text
    for (const secret of texts) if (kept.includes(secret)) kept = kept.replaceAll(secret, REDACTED)
    return kept
  }
  const hideIn = <T>(value: T, seen = new Map<object, unknown>()): T => {
    if (typeof value === 'string') return hide(value) as T
    if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value
    const known = seen.get(value)
    if (known !== undefined) return known as T
    seen.set(value, value)
    let copy: Record<string, unknown> | unknown[] | undefined
    for (const key of Object.keys(value)) {
      const before = (value as Readonly<Record<string, unknown>>)[key]
      const after = hideIn(before, seen)
      if (after === before) continue
      copy ??= (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown> | unknown[]
      Object.defineProperty(copy, key, { value: after, enumerable: true, writable: true, configurable: true })
    }
    if (copy) seen.set(value, copy)
    return (copy ?? value) as T
  }
  return { hide, isIn: (given) => bytes.some((one) => given.includes(one)), hideIn: (value) => hideIn(value) }
}

/** Names of variables whose values nobody is to see. `PWD` is a folder. */
const SECRET_NAME =
  /(?:^|_)(?:(?:API|ACCESS|AUTH|PRIVATE|SECRET|SIGNING|ENCRYPTION)?_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$/i

/** The values of variables of an environment that are secrets by their names. */
export const secretsOf = (environment: Readonly<Record<string, string | undefined>>): readonly string[] =>
  Object.entries(environment).flatMap(([name, value]) => (value && SECRET_NAME.test(name) ? [value] : []))

const spellings = (text: string): string[] => [text, JSON.stringify(text).slice(1, -1)]
