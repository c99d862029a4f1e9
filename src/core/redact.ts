import { looksSecret } from './credentials.ts'
import { REDACTED, redactSecrets } from './secret-values.ts'

/** Whether there is anything to look for: most texts have none of it. */
const SUSPECT = /pass|pwd|cookie|secret|token|auth|key|cred|bearer|sig|code=/i

// None of these looks at a character more often than a fixed number of times: whoever wrote the text may have made it costly.
const BEARER = /\b(bearer\s{1,4})(?=[\w.~+/-]{0,40}\d|[\w.~+/-]{20})[\w.~+/-]{8,}=*/gi
const QUERY = /([?&])([\w.-]{1,64})(=)([^&\s"'<>#]+)/g
const HEADER =
  /^([<>*]?\s{0,8}(?:proxy-)?authorization\s{0,4}:\s{0,4}(?:(?:bearer|basic|digest|negotiate|token|apikey)\s{1,4})?|[<>*]?\s{0,8}(?:set-)?cookie\s{0,4}:\s{0,4})\S.*$/gim
/** A name, what stands between, and a value: in quotes, or a word that no bracket follows. */
const PAIR =
  /(?<![\w.-])([A-Za-z][\w.-]{0,80})(["']?(?:=|\s{0,4}[:=]\s{0,4}))("(?:[^"\\\n]|\\.){1,4096}"|'[^'\n]{1,4096}'|[^\s"'`()<>{}[\],;&|$]{4,4096}(?![\w(.[]))/g

/** Of addresses that are signed, whatever else is in them. */
const SIGNED = /^(?:sig|signature|code|key|x-amz-signature|x-amz-security-token|x-goog-signature)$/i
/** What code says where others have a value. */
const CODE =
  /^(?:string|number|boolean|unknown|undefined|null|none|true|false|any|void|object|never|str|bytes?|int|await|new|self|this)\b/i

/**
 * A text without what looks like a credential in it: private keys, JSON web tokens, bearer tokens and those of well-known
 * services, values of names such as `password`, and what addresses have in their login and query. A help against
 * accidents, in time that grows with the text; it stops nobody who means to get one out.
 */
export function redact(text: string): string {
  const kept = redactSecrets(text)
  if (!SUSPECT.test(kept)) return kept
  return kept
    .replace(HEADER, (_whole, name: string) => name + REDACTED)
    .replace(BEARER, (_whole, word: string) => word + REDACTED)
    .replace(QUERY, (whole, mark: string, name: string, is: string) =>
      SIGNED.test(name) || looksSecret(name) ? mark + name + is + REDACTED : whole,
    )
    .replace(PAIR, (whole, name: string, between: string, value: string) =>
      looksSecret(name) && isValue(between, value) ? name + between + quoted(value) : whole,
    )
}

/** `KEY=value` is one whatever the value; elsewhere, where code may stand, it has to look like one. */
function isValue(between: string, value: string): boolean {
  if (value.startsWith(REDACTED)) return false
  if (/^["']/.test(value)) return !value.includes(REDACTED)
  if (between === '=') return !CODE.test(value)
  return /\d/.test(value) && value.length >= 6 && !CODE.test(value) && !/^[\w$]+(?:\.[A-Za-z_$]\w*)+$/.test(value)
}

const quoted = (value: string): string => (/^["']/.test(value) ? value[0] + REDACTED + value[0] : REDACTED)

/** An address without the values of parameters that look like credentials; other text is `redact`ed. */
export function redactUrl(given: string): string {
  if (!URL.canParse(given)) return redact(given)
  const url = new URL(given)
  for (const name of [...url.searchParams.keys()]) if (looksSecret(name)) url.searchParams.set(name, REDACTED)
  return url.href
}
