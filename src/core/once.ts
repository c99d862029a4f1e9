/** A value that is made on first use. */
export interface Once<T> {
  (): T
  /** The value if it was made. */
  readonly made: T | undefined
}

/** Calls `make` on first use and returns the same value afterwards. */
export function once<T>(make: () => T): Once<T> {
  let kept: { readonly value: T } | undefined
  const get = (): T => {
    kept ??= { value: make() }
    return kept.value
  }
  return Object.defineProperty(get, 'made', { get: () => kept?.value }) as Once<T>
}
