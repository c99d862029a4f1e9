interface Cache<K, V> {
  get(key: K): V | undefined
  set(key: K, value: V): unknown
}

/** The value of a key in a map. If there is none, `make` creates it. Node 20 has no `Map.prototype.getOrInsertComputed`. */
export function getOrInsert<K, V>(map: Cache<K, V>, key: K, make: () => NoInfer<V>): V {
  const found = map.get(key)
  if (found !== undefined) return found
  const value = make()
  map.set(key, value)
  return value
}
