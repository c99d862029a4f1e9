import { looksSecret } from './secret-names.ts'
import { REDACTED, redactSecrets } from './secret-values.ts'

/** A quick test, because most texts contain nothing suspicious. */
const SUSPECT = /pass|pwd|cookie|secret|token|auth|key|cred|bearer|sig|code=/i

// All expressions look at each character a bounded number of times, because the text may be hostile.
const BEARER = /\b(bearer\s{1,4})(?=[\w.~+/-]{0,40}\d|[\w.~+/-]{20})[\w.~+/-]{8,}=*/gi
const QUERY = /([?&])([\w.-]{1,64})(=)([^&\s"'<>#]+)/g
const HEADER =
  /^([<>*]?\s{0,8}(?:proxy-)?authorization\s{0,4}:\s{0,4}(?:(?:bearer|basic|digest|negotiate|token|apikey)\s{1,4})?|[<>*]?\s{0,8}(?:set-)?cookie\s{0,4}:\s{0,4})\S.*$/gim
/** A name, a separator, and a value: quoted, or a word not followed by a bracket. */
const PAIR =
  /(?<![\w.-])([A-Za-z][\w.-]{0,80})(["']?(?:=|\s{0,4}[:=]\s{0,4}))("(?:[^"\\\n]|\\.){1,4096}"|'[^'\n]{1,4096}'|[^\s"'`()<>{}[\],;&|$]{4,4096}(?![\w(.[]))/g

/** Parameters of signed URLs. */
const SIGNED = /^(?:sig|signature|code|key|x-amz-signature|x-amz-security-token|x-goog-signature)$/i
/** Words that follow a name in source code, such as types. They are not credentials. */
const CODE =
  /^(?:string|number|boolean|unknown|undefined|null|none|true|false|any|void|object|never|str|bytes?|int|await|new|self|this)\b/i

/**
 * Removes what looks like a credential: private keys, JSON web tokens, bearer tokens, tokens of well-known services,
 * values of names such as `password`, and logins and query values in URLs. Protects against accidents, not against a
 * determined author. Linear time.
 */
export function redact(text: string): string {
  const redacted = redactSecrets(text)
  if (!SUSPECT.test(redacted)) return redacted
  return redacted
    .replace(HEADER, (_whole, name: string) => name + REDACTED)
    .replace(BEARER, (_whole, word: string) => word + REDACTED)
    .replace(QUERY, (whole, mark: string, name: string, is: string) =>
      SIGNED.test(name) || looksSecret(name) ? mark + name + is + REDACTED : whole,
    )
    .replace(PAIR, (whole, name: string, between: string, value: string) =>
      looksSecret(name) && isValue(between, value) ? name + between + redactValue(value) : whole,
    )
}

/** In `KEY=value` anything is a value; elsewhere, where code is likely, it must look like one. */
function isValue(between: string, value: string): boolean {
  if (value.startsWith(REDACTED)) return false
  if (/^["']/.test(value)) return !value.includes(REDACTED)
  if (between === '=') return !CODE.test(value)
  return /\d/.test(value) && value.length >= 6 && !CODE.test(value) && !/^[\w$]+(?:\.[A-Za-z_$]\w*)+$/.test(value)
}

const redactValue = (value: string): string => (/^["']/.test(value) ? value[0] + REDACTED + value[0] : REDACTED)

/** A URL without values of parameters that look like credentials; other text goes through `redact`. */
export function redactUrl(text: string): string {
  if (!URL.canParse(text)) return redact(text)
  const url = new URL(text)
  for (const name of [...url.searchParams.keys()]) if (looksSecret(name)) url.searchParams.set(name, REDACTED)
  return url.href
}
