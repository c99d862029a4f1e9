import { isRecord } from '../core/is-record.ts'

/**
 * Returns the result of an author's function that must be synchronous.
 * @param name of the function, for the error
 * @throws TypeError if the result is a promise. Its rejection is ignored.
 */
export function requireSync<T>(name: string, result: T): T {
  if (!isRecord(result) || typeof result['then'] !== 'function') return result
  // Nothing else waits for this promise, and an unhandled rejection ends a program that embeds Pegboard.
  Promise.resolve(result).catch(() => undefined)
  throw new TypeError(`${name} returned a promise, but it must be synchronous`)
}
