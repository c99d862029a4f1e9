/**
 * A map of few keys that come and go, looked through from the newest. A `Map` is made anew all the time, and each holds
 * the next one in memory together with all that was in it.
 */
export interface Few<K, V> {
  get(key: K): V | undefined
  set(key: K, value: V): void
  delete(key: K): void
  readonly keys: readonly K[]
  /** In the order of the keys. */
  readonly values: readonly V[]
}

export function createFew<K, V>(): Few<K, V> {
  const keys: K[] = []
  const values: V[] = []
  return {
    keys,
    values,
    get: (key) => values[keys.lastIndexOf(key)],
    set(key, value) {
      const at = keys.lastIndexOf(key)
      if (at !== -1) values[at] = value
      else {
        keys.push(key)
        values.push(value)
      }
    },
    delete(key) {
      const at = keys.lastIndexOf(key)
      if (at === -1) return
      const [lastKey, lastValue] = [keys.pop() as K, values.pop() as V]
      if (at === keys.length) return
      keys[at] = lastKey
      values[at] = lastValue
    },
  }
}
