import { redactSecrets } from '../core/secret-values.ts'

/** Returns a copy of a JSON value without secrets. */
export type Scrub = <T>(value: T) => T

/**
 * Removes values that look like secrets, and known secrets.
 * @param hide removes the known ones from a text
 */
export function createScrubber(hide: (text: string) => string): Scrub {
  const clean = (text: string): string => redactSecrets(hide(text))
  const copy = (value: unknown): unknown => {
    if (typeof value === 'string') return clean(value)
    if (Array.isArray(value)) return value.map(copy)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [clean(key), copy(one)]))
  }
  return <T>(value: T): T => copy(value) as T
}
