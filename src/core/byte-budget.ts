/** A limit on the bytes that each owner may hold at once. */
export interface ByteBudget {
  /** @returns false, without holding more bytes, if the owner would exceed the limit */
  hold(who: string, bytes: number): boolean
  free(who: string, bytes: number): void
}

/** @param most maximum number of bytes for one owner */
export function createByteBudget(most: number): ByteBudget {
  const held = new Map<string, number>()
  return {
    hold(who, bytes) {
      const now = (held.get(who) ?? 0) + bytes
      if (now > most) return false
      held.set(who, now)
      return true
    },
    free(who, bytes) {
      const left = (held.get(who) ?? 0) - bytes
      if (left > 0) held.set(who, left)
      else held.delete(who)
    },
  }
}
