/**
 * Calls `make` on first use and returns the same value afterwards. It is a bare function, because there is one for each
 * tool: with a property of its own, an API of 40,000 operations blocked the event loop for 730 instead of under 500 ms.
 */
export function once<T>(make: () => T): () => T {
  let cached: { readonly value: T } | undefined
  return () => {
    cached ??= { value: make() }
    return cached.value
  }
}

/** A part that is made on first use, and closed at the end if it was made. */
export interface Lazy<T> {
  get(): T
  /** Undefined if it was not made. */
  readonly made: T | undefined
}

export function lazy<T>(make: () => T): Lazy<T> {
  let value: T | undefined
  return {
    get() {
      value ??= make()
      return value
    },
    get made() {
      return value
    },
  }
}
