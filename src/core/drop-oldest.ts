/** Deletes the entry that was added first, if a map has more than `max`. */
export function dropOldest<K>(map: Map<K, unknown>, max: number): void {
  if (map.size > max) for (const oldest of map.keys()) return void map.delete(oldest)
}
