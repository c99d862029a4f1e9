/**
 * Returns the result of an author's function that must be synchronous.
 * @param name of the function, for the error
 * @throws TypeError if the result is a promise, or has a method `then`. The rejection of a promise is ignored.
 */
export function requireSync<T>(name: string, result: T): T {
  if (typeof (result as { then?: unknown } | null | undefined)?.then !== 'function') return result
  // Nothing else waits for this promise, and an unhandled rejection ends a program that embeds Pegboard. The method
  // `then` of another value must not be called: a query builder would run its query.
  if (result instanceof Promise) result.catch(() => undefined)
  throw new TypeError(`${name} returned a promise, but it must be synchronous`)
}
