/** Deletes the entry that was added first, if a map has more than `max`. */
export function dropOldest<K>(map: Map<K, unknown>, max: number): void {
  if (map.size > max) for (const oldest of map.keys()) return void map.delete(oldest)
}

/** Sets an entry as the newest of a map, and deletes the oldest if the map then has more than `max`. */
export function setNewest<K, V>(map: Map<K, V>, key: K, value: V, max: number): V {
  map.delete(key)
  map.set(key, value)
  dropOldest(map, max)
  return value
}
