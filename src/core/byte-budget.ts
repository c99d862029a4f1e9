/**
 * A limit on the bytes that each owner may hold at once.
 * @param most maximum number of bytes for one owner
 */
export function createByteBudget(most: number) {
  const bytesByOwner = new Map<string, number>()
  return {
    /** @returns false, without holding more bytes, if the owner would exceed the limit */
    hold(who: string, bytes: number): boolean {
      const now = (bytesByOwner.get(who) ?? 0) + bytes
      if (now > most) return false
      bytesByOwner.set(who, now)
      return true
    },
    free(who: string, bytes: number): void {
      const left = (bytesByOwner.get(who) ?? 0) - bytes
      if (left > 0) bytesByOwner.set(who, left)
      else bytesByOwner.delete(who)
    },
  }
}
