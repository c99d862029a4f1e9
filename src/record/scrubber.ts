import { looksSecret } from '../core/secret-names.ts'
import { REDACTED, redactSecrets } from '../core/secret-values.ts'
import { guardSecrets } from '../core/tripwire.ts'

/** Returns a copy of a JSON value without secrets. */
export type Scrub = <T>(value: T) => T

export interface Scrubber {
  /** Removes known secrets, values that look like secrets, and texts in fields that are named like credentials. */
  readonly all: Scrub
  /**
   * Removes only known secrets. For definitions of tools: an example such as `postgres://user:password@host` in them must
   * stay, because the lock file approves the exact text.
   */
  readonly known: Scrub
}

/** @param hide removes known secrets from a text */
export const createScrubber = (hide: (text: string) => string): Scrubber => ({
  all: createScrub((text) => redactInJson(redactSecrets(hide(text))), looksSecret),
  known: createScrub(hide, () => false),
})

/** For a text only: of a message, the guard would also replace objects, such as schemas. */
function redactInJson(text: string): string {
  try {
    return guardSecrets(text, { level: 'redact', opaque: [] })
  } catch {
    // JSON with too many parts to look at.
    return REDACTED
  }
}

function createScrub(clean: (text: string) => string, isSecret: (name: string) => boolean): Scrub {
  const copy = (value: unknown, name = ''): unknown => {
    if (typeof value === 'string') return value !== '' && isSecret(name) ? REDACTED : clean(value)
    if (Array.isArray(value)) return value.map((one) => copy(one, name))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [clean(key), copy(one, key)]))
  }
  return <T>(value: T): T => copy(value) as T
}
