/** Deletions after which the entries are copied. Only few entries are left then. */
const MAX_DELETIONS = 1_000

/**
 * A Map for many entries that are soon deleted, such as running calls.
 *
 * Each table that a Map has outgrown points to the next one. In Node 20 and 22, one old table therefore keeps all later tables
 * in memory, with everything that was in them, until a full garbage collection. So this map copies itself from time to time.
 * What that saves: docs/internals/decisions/2026-11-28-calls.md.
 */
export class ShortLivedMap<K, V> {
  #entries = new Map<K, V>()
  #deletions = 0

  get size(): number {
    return this.#entries.size
  }

  get(key: K): V | undefined {
    return this.#entries.get(key)
  }

  has(key: K): boolean {
    return this.#entries.has(key)
  }

  set(key: K, value: V): void {
    this.#entries.set(key, value)
  }

  delete(key: K): boolean {
    if (!this.#entries.delete(key)) return false
    this.#deletions++
    if (this.#deletions > MAX_DELETIONS && this.#deletions > this.#entries.size) {
      this.#deletions = 0
      this.#entries = new Map(this.#entries)
    }
    return true
  }

  clear(): void {
    this.#entries = new Map()
  }

  keys(): IterableIterator<K> {
    return this.#entries.keys()
  }

  values(): IterableIterator<V> {
    return this.#entries.values()
  }

  [Symbol.iterator](): IterableIterator<[K, V]> {
    return this.#entries[Symbol.iterator]()
  }
}
