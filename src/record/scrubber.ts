import { redactSecrets } from '../core/secret-values.ts'

/** Returns a copy of a JSON value without secrets. */
export type Scrub = <T>(value: T) => T

export interface Scrubber {
  /** Removes known secrets, and values that look like secrets. */
  readonly all: Scrub
  /**
   * Removes only known secrets. For definitions of tools: an example such as `postgres://user:password@host` in them must
   * stay, because the lock file approves the exact text.
   */
  readonly known: Scrub
}

/** @param hide removes known secrets from a text */
export const createScrubber = (hide: (text: string) => string): Scrubber => ({
  all: createScrub((text) => redactSecrets(hide(text))),
  known: createScrub(hide),
})

function createScrub(clean: (text: string) => string): Scrub {
  const copy = (value: unknown): unknown => {
    if (typeof value === 'string') return clean(value)
    if (Array.isArray(value)) return value.map(copy)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [clean(key), copy(one)]))
  }
  return <T>(value: T): T => copy(value) as T
}
