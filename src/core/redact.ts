import { looksSecret } from './credentials.ts'
import { REDACTED } from './tripwire.ts'

const KEY_BLOCK = /-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY)-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|$)/g
const JWT = /(?<![\w-])eyJ[\w-]{7,}\.[\w-]{10,}\.[\w-]{10,}/g
const BEARER = /\b(bearer)(\s{1,4})[\w.~+/=-]{10,}/gi
/** A name and a value, as in `key=value`, `"key": "value"` and addresses; cut off at what no name and no value has. */
const PAIR = /(?<![\w-])([\w-]{1,64})(["']?\s{0,4}[:=]\s{0,4}["']?)([\w.~+/%-]{8,}=*)/g

/**
 * The text without what looks like a credential: private keys, JSON Web Tokens, bearer tokens, and the values of names such
 * as `api_key` and `token`, also in addresses. Takes time in proportion to its length.
 */
export function redact(text: string): string {
  return text
    .replaceAll(KEY_BLOCK, `-----BEGIN $1-----\n${REDACTED}\n-----END $1-----`)
    .replaceAll(JWT, REDACTED)
    .replaceAll(BEARER, `$1$2${REDACTED}`)
    .replaceAll(PAIR, (whole, name: string, between: string) =>
      looksSecret(name) ? `${name}${between}${REDACTED}` : whole,
    )
}

/** An address without the values of parameters that look like credentials; other text is `redact`ed. */
export function redactUrl(given: string): string {
  if (!URL.canParse(given)) return redact(given)
  const url = new URL(given)
  for (const name of [...url.searchParams.keys()]) if (looksSecret(name)) url.searchParams.set(name, REDACTED)
  return url.href
}
